"""axe-core finds nothing to complain about in any view, in light and in dark; the keyboard reaches everything."""

import gzip
from pathlib import Path

import pytest

from acceptance.fleet import cluster, running, shielded, worker
from builders import nodepool
from dashboard.pages import page_served

AXE = Path(__file__).parent / "data" / "axe.min.js.gz"
WEEK = {"budgets": [{"nodes": "1"}, {"nodes": "0", "schedule": "0 9 * * mon-fri", "duration": "8h"}]}
VIEWS = (
    "cluster",
    "cluster?size=dots",
    "node/a",
    "node/nowhere",
    "pools",
    "pools/default",
    "plan",
    "decisions",
    "savings",
)


@pytest.fixture(scope="module")
def address():
    nodes = [worker("a", running("x", "a")), worker("b"), worker("c", shielded("y", "c"))]
    with page_served(cluster(*nodes, pools=[nodepool(disruption=WEEK, limits={"cpu": "64"})])) as served:
        yield served.address


@pytest.fixture(scope="module")
def axe():
    return gzip.decompress(AXE.read_bytes()).decode()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(scheme, address, axe, open_page):
    page = open_page(address, color_scheme=scheme)
    for view in VIEWS:
        page.goto(f"{address}#/{view}")
        page.wait_for_selector("main[aria-busy=false] h1, main[aria-busy=false] h2", state="attached")
        page.wait_for_timeout(300)  # real time: bars slide to where they belong
        page.evaluate(axe)
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        told = [
            f"{view}: {each['id']}: {each['help']}: {[node['html'][:160] for node in each['nodes'][:3]]}"
            for each in found["violations"]
        ]
        assert told == []


def test_arrow_keys_walk_over_the_tiles_and_enter_opens_one(address, open_page):
    page = open_page(address + "#/cluster")
    page.wait_for_selector(".tile")
    page.locator(".tile").first.focus()
    page.keyboard.press("ArrowRight")
    assert "b" in page.evaluate("document.activeElement.querySelector('.name').textContent")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('b')")
    assert page.url.endswith("#/node/b")
    assert page.title() == "b · Dovetail"


def test_the_first_tab_offers_to_skip_to_the_content(address, open_page):
    page = open_page(address + "#/plan")
    page.wait_for_selector("[data-count]")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
