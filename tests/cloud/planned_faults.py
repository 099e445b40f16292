"""Planned errors for the next calls of a World, one each."""


class PlannedFaults:
    """Raises the planned error of an operation, before the call or after it took effect."""

    def __init__(self):
        self._before = []
        self._after = []

    def fail(self, operation, error, *, took_effect=False):
        (self._after if took_effect else self._before).append((operation, error))

    async def before(self, call):
        self._raise_planned(self._before, call)

    async def after(self, call):
        self._raise_planned(self._after, call)

    def _raise_planned(self, planned, call):
        due = next((each for each in planned if each[0] == call.operation), None)
        if due is not None:
            planned.remove(due)
            raise due[1]
