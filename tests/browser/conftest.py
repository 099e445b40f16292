"""What every browser test shares: one Chromium, pages that fail on any console error, and servers to look at."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from browser import chromium
from dashboard.pages import page_served

HERE = Path(__file__).parent


def pytest_configure(config):
    config.addinivalue_line("markers", "browser: needs a Chromium (make browser)")


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at the marks
def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser():
    path = chromium.find()
    if path is None:
        message = "there is no Chromium: run `make browser`, or name one with DOVETAIL_CHROMIUM"
        (pytest.fail if chromium.is_required() else pytest.skip)(message)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield opened
        opened.close()


@pytest.fixture
def serve():
    """Serve snapshots from this process, until every page that looks is closed."""
    with ExitStack() as stack:
        yield lambda *given, **options: stack.enter_context(page_served(*given, **options))


@pytest.fixture
def open_page(browser, serve):
    """Open pages; whatever any of them complains about on its console fails the test, unless it is expected."""
    said, contexts = [], []

    def opened(url="about:blank", *, expected=(), **options):
        settings = {"viewport": {"width": 1280, "height": 800}, "timezone_id": "Europe/Berlin", **options}
        context = browser.new_context(**settings)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)

        def note(kind, text):
            if not any(each in text for each in expected):
                said.append(f"{kind}: {text}")

        page.on("console", lambda one: note(one.type, one.text) if one.type in {"error", "warning"} else None)
        page.on("pageerror", lambda one: note("exception", str(one)))
        page.goto(url)
        return page

    opened.said = said
    yield opened
    for each in contexts:
        each.close()
    assert said == []
