"""The pages people read, and the pieces of them that can be held against the code."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("*/README.md"), *ROOT.glob("charts/*/README.md"), *(ROOT / "docs").rglob("*.md")]
)
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.*)$", re.MULTILINE)


class Piece(NamedTuple):
    """Something found on a page."""

    page: str
    text: str

    def __str__(self):
        return f"{self.page}: {self.text.splitlines()[0] if self.text else ''}"


def name_of(page):
    return str(page.relative_to(ROOT))


def blocks(page, language):
    """The fenced blocks of a language."""
    return [Piece(name_of(page), text) for found, text in _FENCE.findall(page.read_text()) if found == language]


def prose(page):
    """The page without its fenced blocks."""
    return _FENCE.sub("", page.read_text())


def links(page):
    """Where links and pictures lead, except out of the project."""
    return [Piece(name_of(page), target) for target in _LINK.findall(prose(page)) if "://" not in target]


def shell_words(page, command):
    """Every call of a command: in blocks of shell, in pipes, and inline."""
    lines = [line for block in blocks(page, "sh") for line in block.text.replace("\\\n", " ").splitlines()]
    calls = [part.split(" # ")[0] for line in [*lines, *_INLINE.findall(prose(page))] for part in line.split("|")]
    return [Piece(name_of(page), call.strip()) for call in calls if call.strip().startswith(f"{command} ")]


def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in _HEADING.findall(prose(page)))
    return {heading.strip().replace(" ", "-") for heading in plain}
