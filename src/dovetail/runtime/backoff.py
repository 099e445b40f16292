"""How long to wait before trying again: doubling, with a ceiling."""


class RetryBackoff:
    """The waits of one series of failures."""

    def __init__(self, first: float, limit: float) -> None:
        self._first = first
        self._limit = limit
        self._failures = 0

    def next(self) -> float:
        """The wait after one more failure, in seconds."""
        delay = min(self._first * 2.0 ** min(self._failures, 32), self._limit)
        self._failures += 1
        return delay

    def reset(self) -> None:
        """It worked: start over."""
        self._failures = 0
