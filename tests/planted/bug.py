"""A planted bug: one small change of the sources that a test or a torture trial must detect.

The bugs are data, one module for each area in `planted/bugs`. Nothing here changes the checkout: the runner applies a
bug to a copy of it.
"""

from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

SOURCES = Path("src/dovetail")
BUGS = Path(__file__).parent / "bugs"


class NotPlantable(Exception):
    """The text that a bug replaces does not occur exactly once."""


@dataclass(frozen=True, kw_only=True)
class Bug:
    """One change, and the tests that should detect it."""

    id: str
    says: str
    """The bug in one sentence, as a reviewer would describe it."""
    file: str
    """Below `src/dovetail`."""
    before: str
    """Source text that occurs exactly once in the file."""
    after: str
    tests: tuple[str, ...] = ()
    """Files or node ids for pytest. Torture trials run if these pass."""
    seeds: tuple[int, ...] = ()
    """Torture seeds that detected it; they run first."""
    survives_because: str = ""
    """Why no test detects it. It still counts as not caught."""
    area: str = ""
    """The name of its module, set by `load_bugs`."""

    @property
    def path(self) -> Path:
        """The path of its file below the root of a checkout."""
        return SOURCES / self.file

    def plant(self, text: str) -> str:
        """The text of the file with the bug applied."""
        found = text.count(self.before)
        if found != 1:
            raise NotPlantable(f"{self.id}: its text occurs {found} times in {self.path}, not once")
        return text.replace(self.before, self.after)


def load_bugs() -> tuple[Bug, ...]:
    """All bugs, by area, in the order of their modules."""
    modules = sorted(path.stem for path in BUGS.glob("*.py"))
    return tuple(
        replace(bug, area=module.replace("_", " "))
        for module in modules
        for bug in import_module(f"planted.bugs.{module}").BUGS
    )
