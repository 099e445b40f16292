"""The pictures of the guide: taken anew by `make screenshots`, looked at for their size always."""

import os
from pathlib import Path

import pytest

from browser.serving import free_port, serving, settled

IMAGES = Path(__file__).parents[2] / "docs" / "images"
LARGEST = 250_000  # bytes
VIEWS = {"cluster": "cluster", "nodepools": "pools", "decisions": "decisions", "savings": "savings", "plan": "plan"}


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    place = tmp_path_factory.mktemp("pictures")
    story = ["demo", "--plain", "--for", "97m", "--speed", "max", "--dashboard-port", free_port()]
    with serving(place, *story, ready="The page stays") as found:
        settled(found)
        yield found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures_are_small(scheme, address, open_page, tmp_path):
    asked = os.environ.get("DOVETAIL_SCREENSHOTS")
    place = Path(asked).resolve() if asked else tmp_path
    page = open_page(address, color_scheme=scheme, viewport={"width": 1240, "height": 720})
    views = dict(VIEWS)
    page.wait_for_selector(".tile")
    views["node"] = page.locator(".tile").nth(2).get_attribute("href").removeprefix("#/")
    for name, view in views.items():
        page.goto(f"{address}#/{view}")
        page.wait_for_selector("main[aria-busy=false]")
        page.wait_for_timeout(700)  # real time: bars slide to where they belong
        path = place / (f"page-{name}.png" if scheme == "light" else f"page-{name}-dark.png")
        page.screenshot(path=path)
        assert path.stat().st_size < LARGEST
        if scheme == "dark" and name != "cluster":
            path.unlink()


def test_the_guides_have_their_pictures():
    assert all((IMAGES / f"page-{name}.png").is_file() for name in (*VIEWS, "node"))
