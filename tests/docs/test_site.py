"""The navigation of the documentation site lists every page."""

import yaml

from docs.pages import PAGES, ROOT, name_of

RECORDS = "docs/decisions/"  # listed on a page of their own


def listed(entry):
    """The pages below an entry of the navigation."""
    if isinstance(entry, str):
        return [entry]
    return [page for each in (entry if isinstance(entry, list) else entry.values()) for page in listed(each)]


def test_every_page_of_the_documentation_is_in_the_navigation_of_the_site_once():
    pages = listed(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    written = {name_of(page) for page in PAGES if name_of(page).startswith("docs/")}
    expected = {name for name in written if not name.startswith(RECORDS)}
    assert len(pages) == len(set(pages))
    assert expected <= set(pages)
    assert all((ROOT / page).is_file() for page in pages)
