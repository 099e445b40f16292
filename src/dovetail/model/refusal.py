"""An expected "no" as a value: it becomes the event, the metric label, the log line and the row in `explain`."""

from datetime import datetime

import msgspec


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """Why something was not done. `code` is stable and short; `message` is for people.

    `until`: it lifts by itself then. `permanent`: it never does, somebody has to change something. Neither: it may any
    time.
    """

    code: str
    about: str
    message: str
    until: datetime | None = None
    permanent: bool = False

    def __str__(self) -> str:
        return f"{self.about}: {self.message}"
