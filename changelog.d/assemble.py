"""Moves the fragments of this directory into CHANGELOG.md when a version is released: `make changelog VERSION=0.2.0`.

A fragment is a file `SLUG.KIND.md` whose text becomes one list item under the heading of its kind. The text already
under `[Unreleased]` is kept, first. All file names are checked before anything is written.
"""

import re
import sys
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
CHANGELOG = HERE.parent / "CHANGELOG.md"
KINDS = ("added", "changed", "deprecated", "removed", "fixed", "security")
UNRELEASED = "## [Unreleased]"
_NAME = re.compile(rf"[a-z0-9-]+\.({'|'.join(KINDS)})\.md")
_RELEASE = re.compile(r"^## \[", re.MULTILINE)
_KIND_HEADING = re.compile(r"^### ", re.MULTILINE)


class InvalidFragment(ValueError):
    """A fragment has a wrong name or no text."""


def read_fragments(directory: Path) -> dict[str, list[str]]:
    """List items by kind, in the order of the file names."""
    items: dict[str, list[str]] = {}
    for path in fragment_files(directory):
        found, text = _NAME.fullmatch(path.name), path.read_text().strip()
        if found is None:
            raise InvalidFragment(f"{path.name}: name it SLUG.KIND.md, with a kind out of {', '.join(KINDS)}")
        if not text or text.startswith(("-", "*", "#")):
            raise InvalidFragment(f"{path.name}: write one or two sentences, without a bullet or a heading")
        items.setdefault(found[1], []).append("- " + "\n  ".join(text.splitlines()))
    return items


def fragment_files(directory: Path) -> list[Path]:
    """All files but the README and this script."""
    return sorted(
        path for path in directory.iterdir() if path.is_file() and path.name not in {"README.md", "assemble.py"}
    )


def assemble(changelog: str, items: dict[str, list[str]], heading: str) -> str:
    """The changelog with the unreleased text and all items under a release's heading, and an empty [Unreleased]."""
    before, found, rest = changelog.partition(UNRELEASED)
    if not found:
        raise InvalidFragment(f"CHANGELOG.md has no heading {UNRELEASED}")
    following = _RELEASE.search(rest)
    end = following.start() if following else len(rest)
    notes = rest[:end].strip()
    for kind in KINDS:
        notes = _with_items(notes, kind, items.get(kind, []))
    return f"{before}{UNRELEASED}\n\n## {heading}\n\n{notes}\n\n{rest[end:]}".rstrip() + "\n"


def _with_items(notes: str, kind: str, items: list[str]) -> str:
    """The notes with items at the end of the section of their kind, which is made where there is none."""
    if not items:
        return notes
    title = f"### {kind.capitalize()}\n"
    if title not in notes:
        return f"{notes}\n\n{title}\n".lstrip() + "\n".join(items)
    start = notes.index(title) + len(title)
    following = _KIND_HEADING.search(notes, start)
    end = following.start() if following else len(notes)
    return f"{notes[:end].rstrip()}\n" + "\n".join(items) + f"\n\n{notes[end:]}".rstrip()


def main(version: str) -> None:
    """Write the changelog, then delete the fragments."""
    day = datetime.now(tz=UTC).date()
    CHANGELOG.write_text(assemble(CHANGELOG.read_text(), read_fragments(HERE), f"[{version}] - {day}"))
    for path in fragment_files(HERE):
        path.unlink()


if __name__ == "__main__":
    main(sys.argv[1])
