"""Phrases that read like a translation, or like a riddle, do not come back into what people read."""

import re

import pytest

from docs.pages import PAGES, ROOT, name_of

BANNED = (
    "anew", "beheld", "henceforth", "homeless", "is told", "nobody", "overhear", "purse", "shall", "somebody",
    "such as it is", "thereby", "wanted back", "whoever", "what nobody", "is spoken for", "has a place",
)  # fmt: skip
PATTERN = re.compile(r"\b(" + "|".join(re.escape(each) for each in BANNED) + r")\b", re.IGNORECASE)
HISTORY = ("docs/decisions/", "CHANGELOG.md", "bench/")
TEXTS = sorted(
    [page for page in PAGES if not name_of(page).startswith(HISTORY)]
    + [path for top in ("deploy", "examples", "charts", "changelog.d") for path in (ROOT / top).rglob("*.*ml")]
    + list((ROOT / "changelog.d").glob("*.md"))
    + [path for suffix in ("py", "js", "html") for path in (ROOT / "src").rglob(f"*.{suffix}")]
)


@pytest.mark.parametrize("path", TEXTS, ids=name_of)
def test_a_text_has_none_of_the_banned_phrases(path):
    found = [
        f"{number}: {line.strip()}"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if PATTERN.search(line)
    ]
    assert found == []
