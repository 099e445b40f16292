"""Variants side by side: lines where they fit, columns where they do not, differences marked; and ticks of plots."""

import io

import pytest
from rich.console import Console

from dovetail.cli.simulation import html_report
from dovetail.cli.simulation.comparison import (
    FIGURES,
    Row,
    as_document,
    compare,
    draw_comparison,
    short_names,
    without_disruption,
)
from dovetail.cli.simulation.svg_chart import plot
from dovetail.cli.simulation.variants import Variant

A, B = "nodepool/a.spec.disruption.consolidateAfter", "nodepool/b.spec.disruption.consolidateAfter"


def row(name, cost, base=1.0):
    figures = dict.fromkeys((figure for figure, _, _ in FIGURES), cost)
    return Row(
        name, (0, 1), figures, dict.fromkeys(figures, cost - base), {"Empty": 2 * cost}, {"Empty": 2 * (cost - base)}
    )


def drawn(rows, width):
    paper = io.StringIO()
    draw_comparison(Console(file=paper, width=width, color_system=None), rows)
    return paper.getvalue().splitlines()


def test_settings_go_by_the_end_of_their_path():
    assert short_names(["baseline", f"{A}=1m", f"{A}=5m, scenario.seed=3"]) == [
        "baseline",
        "consolidateAfter=1m",
        "consolidateAfter=5m, seed=3",
    ]


def test_settings_that_would_be_called_the_same_keep_their_path():
    assert short_names([f"{A}=1m", f"{B}=1m", "scenario.seed=1"]) == [f"{A}=1m", f"{B}=1m", "seed=1"]


def test_on_a_wide_terminal_each_variant_is_a_line():
    lines = drawn([row("baseline", 1.0), row(f"{A}=1m", 0.5)], 200)
    assert lines[0].startswith("VARIANT")
    assert lines[2].startswith("consolidateAfter=1m  0.50 (-0.50)")
    assert lines[-1].startswith("Averaged over 2 seeds")


@pytest.mark.parametrize("number", [2, 7])
def test_on_a_narrow_one_each_is_a_column_and_none_is_missing(number):
    rows = [row("baseline", 1.0), *(row(f"{A}={at}m", 1.0 + at) for at in range(1, number))]
    lines = drawn(rows, 80)
    assert max(map(len, lines)) <= 80
    assert [line.strip() for line in lines[:2]] == ["1  baseline", "2  consolidateAfter=1m"]
    heads = [word for line in lines if line.startswith("VARIANT") for word in line.split()[1:]]
    assert heads == [str(at) for at in range(1, number + 1)]


def test_reasons_are_marked_like_every_figure():
    """Two Empty more than the first in a line, and in a column."""
    rows = [row("baseline", 1.0), row("x", 2.0)]
    assert drawn(rows, 250)[2].rstrip().endswith("4 (+2) Empty")
    (column,) = (line.split() for line in drawn(rows, 80) if line.startswith("  Empty"))
    assert column == ["Empty", "2", "4", "(+2)"]
    told = html_report._comparison(rows, ["baseline", "x"])
    assert "<td>Empty, nodes</td><td>2</td>" in told
    assert '<td>4 <span class="more">(+2)</span></td>' in told


def test_the_spread_between_seeds_is_shown():
    """Two seeds, a dollar apart."""
    reports = [report(cost) for cost in (1.0, 2.0)]
    (only,) = compare([Variant("a", seed, None) for seed in (0, 1)], reports)
    assert (only.figures["cost"], only.spread["cost"], only.spread["evictions"]) == (1.5, 0.5, 0.0)
    lines = drawn([only], 250)
    assert lines[1].startswith("a        1.50 ±0.50  ")
    assert "± is the largest distance of a seed from the average" in lines[-1]


def report(cost):
    return {
        "cost": {"total": cost, "overLowerBound": None},
        "savings": {"total": cost / 2},
        "evictions": 3,
        "disruptions": {},
        "nodes": {"launched": 1, "most": 1},
        "pending": {"podHours": 0.0, "p95Seconds": 0.0},
    }


def test_the_cost_without_disruption_is_said_in_words():
    rows = [row("baseline", 1.0), row("without disruption", 3.0)]
    said = (
        "Without disruption it would have cost $3.00, $2.00 more than with it. Of that, the savings model counts $1.00."
    )
    assert said in drawn(rows, 250)
    assert f"<p>{said}</p>" in html_report._comparison(rows, ["baseline", "without disruption"])
    assert without_disruption([row("baseline", 1.0), row(f"{A}=1m", 3.0)]) == ""


def test_every_run_has_the_name_of_its_variant():
    told = as_document([row("a", 1.0)], [Variant("a", 3, None)], [{"seed": 3}])
    assert [(run["variant"], run["seed"]) for run in told["runs"]] == [("a", 3)]
    assert told["variants"][0]["difference"]["disruptionsByReason"] == {"Empty": 0.0}


def test_a_difference_that_rounds_to_nothing_is_not_marked():
    lines = drawn([row("baseline", 1.0), row("x", 1.001)], 200)
    assert "(" not in lines[2]


@pytest.mark.parametrize(
    ("end", "told"), [(1.0, ["0 min", "30 min", "60 min"]), (8.0, ["0 h", "4 h", "8 h"]), (168.0, ["day 0", "day 7"])]
)
def test_the_ticks_of_a_plot_are_round(end, told):
    drawn = plot("Nodes", [end / 2, end], {"nodes": [1.0, 2.0]})
    for tick in told:
        assert f">{tick}</text>" in drawn


def test_a_value_that_is_not_known_is_a_gap_and_not_zero():
    drawn = plot("Cost per hour", [1.0, 2.0, 3.0], {"lower bound": [0.5, None, 0.25]}, "$")
    assert drawn.count('<polyline class="edge') == 2
    assert "<td>01:00 to 02:00 h</td><td>not known</td>" in drawn
    assert 'aria-label="Cost per hour: lower bound: at most $0.500, at the end $0.250"' in drawn
    assert "lower bound: not known" in plot("Cost per hour", [1.0], {"lower bound": [None]}, "$")


def test_the_amounts_of_a_plot_are_round_and_have_a_unit():
    drawn = plot("Cost per hour", [1.0], {"cost": [0.92]}, "$")
    assert [each.split("<")[0] for each in drawn.split('text-anchor="end">')[1:7]][:5] == [
        "$0.00",
        "$0.20",
        "$0.40",
        "$0.60",
        "$0.80",
    ]
    assert "<title>00:00 to 01:00 h\ncost: $0.920</title>" in drawn
