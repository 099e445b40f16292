"""An expected "no" as a value: it becomes the event, the metric label, the log line and the row in `explain`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why something was not done. `code` is stable and short; `message` is for people."""

    code: str
    about: str
    message: str

    def __str__(self) -> str:
        return f"{self.about}: {self.message}"
