"""Builds the documentation site into build/site: `make docs`.

Pages link to each other, and to files such as examples/ and deploy/, by paths within the project. The copy that the
site is built from keeps those paths, so that one link works in an editor, in the repository and on the site. Dead links
and warnings of the site generator are errors. A test keeps the navigation complete.
"""

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[1]
SOURCE, SITE = ROOT / "build" / "site-source", ROOT / "build" / "site"
COPIED = ("docs", "examples", "deploy", "charts", "bench/README.md", "changelog.d/README.md", "LICENSE")


class Page(HTMLParser):
    """Collects the links and the anchors of an HTML page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Remember where the tag leads, and by which name it can be reached."""
        values = dict(attrs)
        self.anchors.update(value for name in ("id", "name") if (value := values.get(name)))
        self.links.update(value for name in ("href", "src") if tag != "base" and (value := values.get(name)))


def copy_sources() -> None:
    """Copy the pages and the files they link to, at the paths they have in the project."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    shutil.rmtree(SITE, ignore_errors=True)
    SOURCE.mkdir(parents=True)
    for page in ROOT.glob("*.md"):
        shutil.copy(page, SOURCE)
    for name in COPIED:
        path = ROOT / name
        (SOURCE / name).parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            shutil.copytree(path, SOURCE / name, ignore=shutil.ignore_patterns("*.py", "__pycache__", "templates"))
        elif path.exists():
            shutil.copy(path, SOURCE / name)


def dead_links() -> list[str]:
    """The links within the site that lead nowhere, each with its page."""
    pages = {path: Page(path.read_text()) for path in SITE.rglob("*.html") if path.name != "404.html"}
    dead = []
    for path, page in sorted(pages.items()):
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            known = pages[target].anchors if target in pages else None
            anchor = unquote(parts.fragment)
            if not target.exists() or (anchor and known is not None and anchor not in known):
                dead.append(f"{path.relative_to(SITE)}: {link}")
    return dead


def main() -> int:
    """Build the site and check it."""
    copy_sources()
    generator = Path(sys.executable).parent / "zensical"
    command = [generator, "build", "--strict", "--clean"]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 the generator
    sys.stdout.write(re.sub(r"\x1b\[[0-9;]*m", "", built.stdout))
    if built.returncode:
        return built.returncode
    dead = dead_links()
    for each in dead:
        sys.stdout.write(f"dead link in {each}\n")
    count = len(list(SITE.rglob("*.html")))
    sys.stdout.write(f"{count} pages in {SITE.relative_to(ROOT)}, {len(dead)} dead links\n")
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main())
