"""The charts of cost and savings: what is drawn, and that pointer, keys, screen reader and table agree."""

from dataclasses import replace
from datetime import timedelta

import pytest
from playwright.sync_api import expect

from acceptance.fleet import cluster, free, worker
from dashboard.test_api import decided
from dovetail.ports.ledger import LedgerAction
from observe.test_ledger import entry, writing

HOUR = timedelta(hours=1)
POOLS = [free("web"), free("batch")]


def at(shown, minutes):
    return replace(shown, at=shown.at - timedelta(minutes=minutes))


@pytest.fixture
def shown():
    return cluster(worker("a", pool="web"), worker("b", pool="batch", type_="m.huge"), pools=POOLS)


@pytest.fixture
def served(shown, serve, tmp_path):
    """Ten minutes with one node, a gap of ten, and ten with two."""
    path = tmp_path / "ledger.db"
    with writing(path) as ledger:
        for decision, ending in (decided(1, "Empty", 1.0, 0.0), decided(3, "Underutilized", 1.0, 0.25)):
            ledger.open(decision)
            ledger.close(decision.id, ending)
            ledger.gone(decision.id, decision.nodes[0].nodeclaim, decision.at)
    served = serve(shown, ledger=path)
    history = served.published_state.cost_history
    one = replace(shown, nodes=shown.nodes[:1])
    for minutes in range(30, 19, -1):
        history.record(at(one, minutes))
    history.interrupt()
    for minutes in range(10, -1, -1):
        history.record(at(shown, minutes))
    return served


def opened(page, key):
    page.wait_for_selector("[data-chart=cost] svg path", state="attached")
    return page.locator(f"[data-chart={key}]")


@pytest.mark.parametrize("width", [375, 1280])
def test_a_cost_is_read_with_the_pointer_and_with_the_keys(width, served, open_page):
    page = open_page(served.address + "#/savings", viewport={"width": width, "height": 900})
    cost = opened(page, "cost")
    assert cost.locator(".series li").all_inner_texts() == ["batch", "web", "total"]
    labels = cost.locator("svg text").all_text_contents()
    assert {"$0.00", "11:40", "11:50"} <= set(labels)
    plot, box = cost.get_by_role("slider"), cost.locator("svg").bounding_box()
    assert box["width"] <= width
    plot.hover(position={"x": box["width"] - 14, "y": 60})
    read = " ".join(cost.locator(".readout").inner_text().split())
    assert read == "Mon 05 Jan 11:59 to 12:00 UTC total $5.000 web $1.000 batch $4.000"
    plot.focus()
    page.keyboard.press("Home")
    spoken = "Mon 05 Jan 11:30 to 11:31 UTC: batch $0.000 an hour, web $1.000 an hour, total $1.000 an hour"
    assert plot.get_attribute("aria-valuetext") == spoken
    page.keyboard.press("End")
    for _ in range(12):
        page.keyboard.press("ArrowLeft")
    assert "total not known" in plot.get_attribute("aria-valuetext")
    page.keyboard.press("Escape")
    expect(cost.locator(".readout")).to_be_hidden()


def test_nothing_is_drawn_where_nothing_is_known(served, open_page):
    page = open_page(served.address + "#/savings")
    cost = opened(page, "cost")
    (gap,) = cost.locator("rect.unknown").all()
    plot, gap = cost.locator("svg").bounding_box(), gap.bounding_box()
    assert gap["width"] == pytest.approx(plot["width"] / 3, rel=0.1)
    assert cost.locator("path.edge.total").count() == 2
    for each in cost.locator("path.edge.total").all():
        box = each.bounding_box()
        assert box["x"] + box["width"] <= gap["x"] + 2 or box["x"] >= gap["x"] + gap["width"] - 2
    assert "gray where the cluster was not read" in page.inner_text("main")
    assert page.inner_text("[data-figure=spent]").split("\n")[1:] == ["$1.00", "in 20 min recorded"]
    page.locator(".bar select").select_option("24h")
    expect(cost.locator("rect.unknown")).to_have_count(2)  # and before the process started
    assert cost.locator("rect.unknown").first.bounding_box()["width"] > plot["width"] * 0.8
    assert page.url.endswith("since=24h")


def test_the_table_has_the_values_of_the_chart(served, open_page):
    page = open_page(served.address + "#/savings")
    for key, name, rows in (("cost", "Cost per hour, values", 30), ("saved", "Saved by disruption, values", 31)):
        chart = opened(page, key)
        chart.locator("summary").click()
        shown = chart.get_by_role("group", name=name).locator("tbody tr")
        expect(shown).to_have_count(rows)  # the table is filled after the click
        first = shown.first.locator("td").all_inner_texts()
        plot = chart.get_by_role("slider")
        plot.focus()
        page.keyboard.press("End")
        spoken = plot.get_attribute("aria-valuetext")
        assert spoken.startswith(first[0])
        assert all(each in spoken for each in first)


def test_savings_are_drawn_by_reason_up_to_the_sum(served, open_page):
    page = open_page(served.address + "#/savings")
    saved = opened(page, "saved")
    assert saved.locator(".series li").all_inner_texts() == ["Underutilized", "Empty", "total"]
    answer = served.ask("/api/savings").json
    plot = saved.get_by_role("slider")
    plot.focus()
    page.keyboard.press("End")
    assert f"total ${answer['saved']:.2f}" in plot.get_attribute("aria-valuetext")
    assert saved.locator("path.edge").count() == 3


def test_a_value_that_is_read_stays_while_the_chart_grows(shown, served, open_page):
    page = open_page(served.address + "#/savings")
    plot = opened(page, "cost").get_by_role("slider")
    plot.focus()
    page.keyboard.press("Home")
    before, last = plot.get_attribute("aria-valuetext"), plot.get_attribute("aria-valuemax")
    later = replace(shown, at=shown.at + timedelta(minutes=2))
    served.published_state.cost_history.record(later)
    served.published_state.publish(later)
    expect(plot).not_to_have_attribute("aria-valuemax", last, timeout=20_000)
    assert plot.get_attribute("aria-valuetext") == before
    assert page.evaluate("document.activeElement.getAttribute('role')") == "slider"
    expect(page.locator("[data-chart=cost] .readout")).to_be_visible()


def test_without_data_the_charts_say_what_is_missing(serve, open_page, tmp_path):
    path = tmp_path / "ledger.db"
    with writing(path) as ledger:
        ledger.open(entry("a1", act=LedgerAction.REMOVE))
    served = serve(cluster(worker("a"), worker("b", type_="m.unheard-of")), ledger=path)
    page = open_page(served.address + "#/savings")
    page.wait_for_selector("[data-chart=cost]")
    assert page.locator("[data-chart=cost] .empty").inner_text() == "No cost is recorded yet."
    assert page.locator("[data-chart=saved] .empty").inner_text().startswith("No decisions yet")
    assert page.locator("[data-unpriced]").inner_text().startswith("Cost unknown for 1 node")
    assert page.inner_text("[data-figure=cost] .label") == "Cost an hour, at least"
    assert page.locator(".plot:visible").count() == 0


def test_the_charts_stay_when_the_connection_is_lost(served, open_page):
    page = open_page(served.address + "#/savings", expected=("Failed to load", "ERR_FAILED"))
    opened(page, "cost")
    page.route("**/api/**", lambda route: route.abort())
    page.locator(".bar select").select_option("1h")
    page.wait_for_timeout(300)  # real time: the request fails
    assert page.locator("[data-chart=cost] svg path").count() > 0
    assert page.locator("[data-chart=saved] svg path").count() > 0
