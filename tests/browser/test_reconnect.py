"""A page that outlives its server: it says so, tries again, and shows what the next one has."""

import re

from playwright.sync_api import expect

from acceptance.fleet import cluster, worker
from browser.serving import free_port, serving
from dovetail.manifest.snapshot_file import snapshot_bytes

LOST = ("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE")


def test_after_a_restart_the_page_shows_the_new_process_without_a_reload(tmp_path, open_page):
    port = free_port()
    files = []
    for number in (2, 3):
        files.append(tmp_path / f"{number}.json")
        files[-1].write_bytes(snapshot_bytes(cluster(*(worker(f"n{each}") for each in range(number)))))
    with serving(tmp_path, "dashboard", "--snapshot", files[0], "--dashboard-port", port) as address:
        page = open_page(address, expected=LOST)
        page.wait_for_selector("#link.live")
        expect(page.locator(".tile")).to_have_count(2, timeout=20_000)
        assert page.inner_text("#link") == "a snapshot"
        page.evaluate("window.sameDocument = true")
    page.wait_for_selector("#link.lost")
    banner = page.locator("#lost")
    expect(banner).to_contain_text("Connection lost. The server does not answer. What you see is from before")
    red, _, _ = (int(each) for each in re.findall(r"\d+", banner.evaluate("each => getComputedStyle(each).color"))[:3])
    assert red > 150
    assert page.locator(".tile").count() == 2
    with serving(tmp_path, "dashboard", "--snapshot", files[1], "--dashboard-port", port):
        expect(page.locator(".tile")).to_have_count(3, timeout=40_000)
        page.wait_for_selector("#link.live")
        assert page.evaluate("window.sameDocument")
        expect(banner).to_be_hidden()


def test_changes_arrive_by_themselves_and_nodes_that_are_gone_go(open_page, serve):
    served = serve(cluster(worker("a"), worker("b")))
    page = open_page(served.address)
    expect(page.locator(".tile")).to_have_count(2, timeout=20_000)
    served.published_state.publish(cluster(worker("b"), worker("c"), worker("d")))
    expect(page.locator(".tile")).to_have_count(3, timeout=20_000)
    names = page.eval_on_selector_all(".tile .name", "all => all.map((one) => one.textContent).sort()")
    assert names == ["b", "c", "d"]


def test_a_controller_that_stands_by_says_so(open_page, serve):
    served = serve()
    served.published_state.publish(None, ("pods are not listed yet",))
    page = open_page(served.address)
    page.wait_for_selector("text=pods are not listed yet")
    served.published_state.publish(cluster(worker("a")))
    page.wait_for_selector(".tile")
