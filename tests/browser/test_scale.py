"""Five thousand nodes: how long until they are seen, how long until a change is, and that scrolling stays light."""

import json
import time
from dataclasses import replace

import pytest
from playwright.sync_api import expect

from acceptance.fleet import cluster, running, worker
from builders import nodepool

NODES = 5_000
FIRST_PAINT_BAR = 10_000  # milliseconds, on a machine with two busy cores
UPDATE_BAR = 1_000


@pytest.fixture(scope="module")
def crowd():
    """Nodes that nobody may disrupt: all the work is in showing them."""
    names = [f"node-{number:04}" for number in range(NODES)]
    nodes = [worker(name, running(f"pod-{name}", name)) for name in names]
    return cluster(*nodes, pools=[nodepool(disruption={"budgets": [{"nodes": "0"}]})])


def test_five_thousand_nodes_are_painted_soon_and_changes_seen_at_once(crowd, open_page, serve, tell):
    served = serve(crowd)
    page = open_page("about:blank")
    page.goto(served.address + "#/cluster")
    page.wait_for_selector(".tile")
    shown = page.evaluate("performance.getEntriesByName('dovetail:cluster-shown')[0].startTime")
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    page.wait_for_selector("[data-figure=plan]", timeout=180_000)
    assert page.inner_text("[data-figure=nodes] b") == f"{NODES:,}"
    assert page.locator(".tile").count() < 200
    page.evaluate("performance.clearMeasures()")
    first = crowd.nodes[0]
    began = time.monotonic()
    served.published_state.publish(replace(crowd, nodes=(replace(first, pods=()), *crowd.nodes[1:])))
    expect(page.locator(".tile .share").first).to_have_text("0%", timeout=20_000)
    seen = (time.monotonic() - began) * 1000
    updates = page.evaluate("performance.getEntriesByName('dovetail:update').map((one) => one.duration)")
    longest = page.evaluate(SCROLL)
    figures = {
        "first paint": paint,
        "nodes shown": shown,
        "update drawn": max(updates),
        "update seen": seen,
        "longest frame": longest,
    }
    tell(f"{NODES} nodes, ms: " + json.dumps({name: round(value) for name, value in figures.items()}))
    assert shown < FIRST_PAINT_BAR
    assert max(updates) < UPDATE_BAR
    page.fill("#filter", "node-4999")
    expect(page.locator(".tile")).to_have_count(1, timeout=20_000)


SCROLL = """async () => {
  let longest = 0, before = performance.now();
  for (let step = 0; step < 40; step += 1) {
    scrollTo(0, step * document.body.scrollHeight / 40);
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    longest = Math.max(longest, now - before);
    before = now;
  }
  return longest;
}"""


def test_the_last_of_them_is_reached_by_scrolling(crowd, open_page, serve):
    served = serve(crowd)
    page = open_page(served.address + "#/cluster")
    page.wait_for_selector(".tile")
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    page.wait_for_selector(f".tile:has-text('node-{NODES - 1}')")
    assert page.locator("li[aria-posinset='5000']").get_attribute("aria-setsize") == "5000"


def test_all_of_them_are_seen_at_a_glance_as_dots(crowd, open_page, serve):
    served = serve(crowd)
    page = open_page(served.address + "#/cluster?size=dots", viewport={"width": 1600, "height": 1400})
    expect(page.locator(".tiles .dot")).to_have_count(NODES, timeout=20_000)
    expect(page.locator(".tiles .dot.permanent")).to_have_count(NODES, timeout=180_000)
