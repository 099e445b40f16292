"""The report that `dovetail simulate --html` writes: one file, no network, plots that can be seen and heard of."""

import gzip
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dovetail.cli.app import app

AXE = Path(__file__).parent / "data" / "axe.min.js.gz"
STORY = Path(__file__).parents[2] / "examples" / "scenarios" / "grace-period.yaml"
GRACE = "nodepool/default.spec.disruption.consolidationGracePeriod"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    result = CliRunner().invoke(
        app, ["simulate", str(STORY), "--compare", "--set", f"{GRACE}=Never", "--html", str(path)]
    )
    assert result.exit_code == 0, result.stderr
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_needs_no_network_shows_its_plots_and_satisfies_axe(scheme, report, open_page):
    page = open_page(color_scheme=scheme, bypass_csp=True)  # axe is put in by us
    asked = []
    page.on("request", lambda one: asked.append(one.url))
    page.goto(report.as_uri())
    assert asked == [report.as_uri()]
    plots = page.get_by_role("img")
    assert plots.count() == 2 + 2 * 3  # variants together, then each by itself
    for at in range(plots.count()):
        box = plots.nth(at).bounding_box()
        assert box is not None
        assert box["height"] > 100
        assert "at most" in plots.nth(at).get_attribute("aria-label")
    values = page.get_by_role("figure").first.locator("details")
    values.locator("summary").click()
    assert values.get_by_role("columnheader").all_inner_texts() == [
        "Time",
        "baseline",
        "consolidationGracePeriod=Never",
    ]
    assert page.get_by_role("heading", level=2).all_inner_texts() == ["baseline", "consolidationGracePeriod=Never"]
    page.add_script_tag(content=gzip.decompress(AXE.read_bytes()).decode())
    found = page.evaluate("axe.run()")
    assert [each["id"] for each in found["violations"]] == []


def test_the_report_fits_a_narrow_screen(report, open_page):
    page = open_page(report.as_uri(), viewport={"width": 380, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= 380
    label = page.locator(".chart text").first.bounding_box()
    assert label is not None
    assert label["height"] >= 9  # the plot is scrolled, not shrunk until nothing can be read
