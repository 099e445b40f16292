"""The pictures of the guide: taken anew by `make screenshots`, looked at for their size always."""

import os
from pathlib import Path

import pytest

from browser.serving import fetch, free_port, serving, settled
from dovetail.manifest.snapshot_file import read_snapshot_file

IMAGES = Path(__file__).parents[2] / "docs" / "images"
LARGEST = 300_000  # bytes
SIZE = {"width": 1240, "height": 720}
TALLER = {"savings": 990}  # with both charts
OFFICE = Path(__file__).parents[2] / "examples" / "snapshots" / "office-hours.yaml"
STORY = {"cluster": "cluster", "decisions": "decisions", "savings": "savings"}
HOURS = {"nodepools": "pools/general", "plan": "plan"}


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    place = tmp_path_factory.mktemp("pictures")
    story = ["demo", "--plain", "--for", "90m", "--speed", "max", "--dashboard-port", free_port()]
    with serving(place, *story, ready="Dashboard:") as found:
        settled(found, at="01:30:00Z")
        yield found


def taken(page, address, views, place):
    """Pictures of these views, by name."""
    for name, view in views.items():
        page.set_viewport_size({**SIZE, "height": TALLER.get(name, SIZE["height"])})
        page.goto(f"{address}#/{view}")
        page.wait_for_selector("main[aria-busy=false]")
        page.wait_for_timeout(700)  # real time: bars slide to where they belong
        snap(page, name, place)


def snap(page, name, place):
    path = place / f"page-{name}.png"
    page.screenshot(path=path)
    assert path.stat().st_size < LARGEST


def open_decision(page, address):
    """One command, opened to its plan and to what its method refused."""
    done = [each for each in fetch(address, "api/history?act=disrupt")["decisions"] if each["outcome"] == "done"]
    chosen = max(done, key=lambda each: (each["reason"] == "Underutilized", each["replacements"], each["at"]))
    page.goto(f"{address}#/decisions?id={chosen['id']}")
    page.wait_for_selector(f"[data-plan='{chosen['id']}']")
    opened = page.locator(f"details[data-key='{chosen['id']}']")
    opened.locator(".weighed details > summary").last.click()
    opened.locator(".weighed details").last.wait_for()
    page.evaluate("(one) => scrollTo(0, one.getBoundingClientRect().top + scrollY - 70)", opened.element_handle())
    page.wait_for_timeout(300)  # real time: the scrolling ends


@pytest.fixture
def place(tmp_path):
    asked = os.environ.get("DOVETAIL_SCREENSHOTS")
    return Path(asked).resolve() if asked else tmp_path


def test_pictures_of_a_story_are_small(address, open_page, place):
    page = open_page(address, viewport=SIZE)
    page.wait_for_selector(".tile")
    node = page.locator(".tile").first.get_attribute("href").removeprefix("#/")
    taken(page, address, {**STORY, "node": node}, place)
    page.set_viewport_size(SIZE)
    open_decision(page, address)
    snap(page, "decision", place)
    taken(open_page(address, viewport=SIZE, color_scheme="dark"), address, {"cluster-dark": "cluster"}, place)


def test_pictures_of_office_hours_are_small(open_page, serve, place):
    served = serve(read_snapshot_file(OFFICE))
    settled(served.address)
    taken(open_page(served.address, viewport=SIZE), served.address, HOURS, place)


def test_the_guides_have_their_pictures():
    assert all((IMAGES / f"page-{name}.png").is_file() for name in (*STORY, *HOURS, "node", "decision", "cluster-dark"))
