"""The modules of every package, as the table in `docs/concepts/architecture.md`.

`python tests/architecture/modules.py` (part of `make generate`) writes the table; `test_modules.py` compares it.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "concepts" / "architecture.md"
SOURCES = ROOT / "src" / "dovetail"
_TABLE = re.compile(r"(?<=<!-- modules -->\n).*(?=<!-- end of modules -->)", re.DOTALL)


def module_table() -> str:
    """One row for each package that has modules."""
    rows = ["| package | modules |", "|---|---|"]
    for package in sorted(path.parent for path in SOURCES.rglob("__init__.py")):
        modules = sorted(path.stem for path in package.glob("*.py") if path.stem not in ("__init__", "__main__"))
        if modules:
            name = package.relative_to(SOURCES.parent)
            rows.append(f"| `{name}` | {' '.join(f'`{module}`' for module in modules)} |")
    return "\n".join(rows) + "\n"


def table_in(page: str) -> str:
    """The table as the page has it."""
    found = _TABLE.search(page)
    assert found is not None, f"{PAGE} has no table between its two comments"
    return found.group()


if __name__ == "__main__":
    PAGE.write_text(_TABLE.sub(module_table(), PAGE.read_text(), count=1))
