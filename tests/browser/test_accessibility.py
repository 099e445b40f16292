"""axe-core finds nothing to complain about in any view, in light and in dark; the keyboard reaches everything."""

import gzip
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from acceptance.fleet import LEAVING, cluster, running, shielded, worker
from browser.test_reconnect import LOST
from builders import nodepool
from cli.test_explain_repair import unhealthy
from dashboard.pages import page_served
from dashboard.test_auth import EVE, Registry
from dovetail.ports.ledger import LedgerAction
from observe.test_ledger import ended, entry, writing
from observe.test_ledger_considered import considered

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
    "decisions?id=a1",
    "savings",
    "savings?since=24h",
)
LASTING = ("cluster", "node/a", "pools", "plan", "decisions", "savings")
CHECKS = 12  # rules of axe that have something to look at on every view


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    path = tmp_path_factory.mktemp("axe") / "ledger.db"
    with writing(path) as ledger:
        ledger.open(entry("a1", node="a", considered=considered(), cost_before=1.0))
        ledger.close("a1", ended())
        ledger.open(entry("b2", act=LedgerAction.REMOVE))
    going = {"metadata": {**LEAVING, "finalizers": ["karpenter.sh/termination"]}}
    nodes = [
        worker("a", running("x", "a")),
        worker("b"),
        worker("c", shielded("y", "c")),
        worker("d", running("z", "d"), claim=going),
        unhealthy("e"),
    ]
    pools = [nodepool(disruption=WEEK, limits={"cpu": "64"})]
    shown = cluster(*nodes, pools=pools)
    with page_served(shown, ledger=path) as served:
        for minutes in (40, 39, 20, 19, 0):
            served.published_state.cost_history.record(replace(shown, at=shown.at - timedelta(minutes=minutes)))
        yield served.address


@pytest.fixture(scope="module")
def axe():
    return gzip.decompress(AXE.read_bytes()).decode()


@pytest.mark.parametrize("width", [375, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_and_no_view_is_wider_than_the_window(scheme, width, address, axe, open_page):
    page = open_page(address, color_scheme=scheme, viewport={"width": width, "height": 800})
    for view in VIEWS:
        page.goto(f"{address}#/{view}")
        page.wait_for_selector("main[aria-busy=false] h1, main[aria-busy=false] h2", state="attached")
        if "id=" in view:
            page.wait_for_selector("[data-refused]")
            page.locator(".weighed details > summary").first.click()
        for each in page.locator(".values:not([hidden]) > summary").all():
            each.click()
        page.wait_for_timeout(300)  # real time: bars slide to where they belong
        assert complaints(page, axe, view) == []
        assert (view, page.evaluate("document.documentElement.scrollWidth")) == (view, width)


@pytest.mark.parametrize("width", [375, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_a_page_that_lost_its_server(scheme, width, axe, open_page):
    """Views that were open keep what they show; a view that is opened then says why it is empty."""
    settings = {"color_scheme": scheme, "viewport": {"width": width, "height": 800}, "expected": LOST}
    with page_served(cluster(worker("a", running("x", "a")), worker("b"))) as served:
        pages = {view: open_page(f"{served.address}#/{view}", **settings) for view in LASTING}
        for page in pages.values():
            page.wait_for_selector("main[aria-busy=false] :is(h1, h2)", state="attached")
            page.wait_for_selector("#link.live")
        texts = {view: page.inner_text("main") for view, page in pages.items()}
    for view, page in pages.items():
        page.wait_for_selector("#lost:not([hidden])")
        assert page.inner_text("main") == texts[view]
        assert complaints(page, axe, view) == []
        assert (view, page.evaluate("document.documentElement.scrollWidth")) == (view, width)
    page = pages["cluster"]
    page.evaluate("location.hash = '#/savings'")
    page.wait_for_selector("main [role=alert]:has-text('The server does not answer.')")
    assert complaints(page, axe, "savings, lost") == []


def complaints(page, axe, view):
    """What axe finds wrong; that it looked at something at all is made sure of."""
    page.evaluate(axe)
    found = page.evaluate("axe.run(document)")
    assert len(found["passes"]) >= CHECKS, view
    return [
        f"{view}: {each['id']}: {each['help']}: {[node['html'][:160] for node in each['nodes'][:3]]}"
        for each in found["violations"]
    ]


def test_axe_would_find_something(address, axe, open_page):
    page = open_page(address + "#/plan")
    page.wait_for_selector("[data-count]")
    page.evaluate("document.querySelector('main').append(document.createElement('input'), new Image())")
    assert {each.split(": ")[1] for each in complaints(page, axe, "plan")} >= {"label", "image-alt"}


def test_a_console_error_would_be_noticed(address, open_page):
    page = open_page(address)
    page.evaluate("console.error('odd')")
    page.evaluate("setTimeout(() => { throw new Error('worse') })")
    page.wait_for_timeout(200)  # real time: the browser tells of it
    assert [each.partition(": ")[0] for each in open_page.said] == ["error", "exception"]
    open_page.said.clear()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("options", [{"token": "correct-horse-battery-staple"}, {"reviewer": Registry().open}])
def test_axe_finds_nothing_in_the_forms_that_ask_for_a_token(scheme, options, axe, open_page, serve):
    served = serve(cluster(worker("a")), **options)
    page = open_page(served.address, color_scheme=scheme, expected=("401", "403"))
    page.get_by_role("textbox").fill(EVE)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_selector("#verdict:not(:empty)")
    assert complaints(page, axe, "login") == []


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


def test_a_question_mark_opens_the_list_of_keys_and_digits_open_the_views(address, axe, open_page):
    page = open_page(address + "#/cluster")
    page.wait_for_selector(".tile")
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")
    assert complaints(page, axe, "keys") == []
    page.keyboard.press("3")
    assert page.url.endswith("#/cluster")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog:not([open])", state="attached")
    for number, view in enumerate(("cluster", "pools", "plan", "decisions", "savings"), 1):
        page.keyboard.press(str(number))
        page.wait_for_function("view => location.hash === `#/${view}`", arg=view)
    page.goto(address + "#/plan")
    page.locator("#left-filter").fill("")
    page.keyboard.type("1?")
    assert page.input_value("#left-filter") == "1?"


def test_the_first_tab_offers_to_skip_to_the_content(address, open_page):
    page = open_page(address + "#/plan")
    page.wait_for_selector("[data-count]")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
