"""A browser without the token sees a form and nothing of the cluster; with it, the page."""

from acceptance.fleet import cluster, worker
from dashboard.test_auth import DANA, EVE, Registry

TOKEN = "correct-horse-battery-staple"
DENIED = ("401", "403")


def test_a_browser_without_the_token_is_asked_for_it(open_page, serve):
    served = serve(cluster(worker("secret-node")), token=TOKEN)
    page = open_page(served.address + "#/cluster", expected=DENIED)
    assert page.get_by_label("Token").is_visible()
    assert "secret-node" not in page.content()
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Log in").click()
    page.wait_for_selector("text=The token is wrong.")
    page.get_by_label("Token").fill(TOKEN)
    page.keyboard.press("Enter")
    page.wait_for_selector(".tile:has-text('secret-node')")
    page.wait_for_selector("#link.live")
    (cookie,) = page.context.cookies()
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"
    assert TOKEN not in cookie["value"]
    page.reload()
    page.wait_for_selector(".tile:has-text('secret-node')")


def test_a_browser_shows_a_token_of_the_cluster_and_is_told_what_it_lacks(open_page, serve):
    registry = Registry()
    served = serve(cluster(worker("secret-node")), reviewer=registry.open)
    page = open_page(served.address + "#/cluster", expected=DENIED)
    field, button = page.get_by_label("Token of the cluster"), page.get_by_role("button", name="Log in")
    for token, said in (("nobody", "does not know this token"), (EVE, "You are eve, who may not list pods")):
        field.fill(token)
        button.click()
        page.wait_for_selector(f"text={said}")
        assert "secret-node" not in page.content()
    field.fill(DANA)
    page.keyboard.press("Enter")
    page.wait_for_selector(".tile:has-text('secret-node')")
    (cookie,) = page.context.cookies()
    assert (cookie["httpOnly"], DANA in cookie["value"]) == (True, False)
    page.reload()
    page.wait_for_selector(".tile:has-text('secret-node')")
