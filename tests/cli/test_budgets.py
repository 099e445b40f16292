"""`dovetail budgets` from outside: the map of hours, its sources, and pools that are blocked."""

import io
import json
from datetime import UTC, datetime

import pytest
import yaml
from rich.console import Console
from typer.testing import CliRunner

from acceptance.fleet import cluster, worker
from builders import nodepool
from dovetail.cli.app import app
from dovetail.cli.view.budgets import draw_map
from dovetail.core.explain.budget_calendar import draw_calendar
from dovetail.manifest.snapshot_file import snapshot_bytes
from manifest.corpus import budgeted, disrupted, pool

OFFICE = {"nodes": "0", "schedule": "0 9 * * mon-fri", "duration": "8h30m"}


def budgets(*arguments, stdin=None):
    return CliRunner().invoke(app, ["budgets", *map(str, arguments)], input=stdin)


@pytest.fixture
def manifest(tmp_path):
    def to_file(*written):
        path = tmp_path / "pool.yaml"
        path.write_text(yaml.safe_dump(budgeted(*written)), encoding="utf-8")
        return path

    return to_file


def test_actions_with_equal_answers_are_one_list(tmp_path):
    path = tmp_path / "cluster.json"
    path.write_bytes(snapshot_bytes(cluster(worker("a"), pools=[nodepool(disruption={"budgets": [{"nodes": "1"}]})])))
    first, *_ = budgets("default", "--snapshot", path).stdout.splitlines()
    assert first == "Now, of 1 node: Drift, Emptiness and Consolidation 1."


def test_a_manifest_hour_by_hour_with_actions_that_are_alike_together(manifest):
    path = manifest({"nodes": "20%"}, OFFICE, {"nodes": "5", "reasons": ["Drifted"]})
    result = budgets("default", "-f", path, "--nodes", 40, "--from", "2026-01-09", "--days", 2)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "NodePool default: how many of 40 nodes may be disrupted at once",
        "From Fri 09 Jan 2026, by the hour, in UTC",
        "",
        "Drift",
        "       00 01 02 03 04 05 06 07 08 09 10 11 12 13 14 15 16 17 18 19 20 21 22 23",
        "Fri 09  5  5  5  5  5  5  5  5  5  0  0  0  0  0  0  0  0 0+  5  5  5  5  5  5",
        "Sat 10  5  5  5  5  5  5  5  5  5  5  5  5  5  5  5  5  5  5  5  5  5  5  5  5",
        "",
        "Emptiness, Consolidation",
        "       00 01 02 03 04 05 06 07 08 09 10 11 12 13 14 15 16 17 18 19 20 21 22 23",
        "Fri 09  8  8  8  8  8  8  8  8  8  0  0  0  0  0  0  0  0 0+  8  8  8  8  8  8",
        "Sat 10  8  8  8  8  8  8  8  8  8  8  8  8  8  8  8  8  8  8  8  8  8  8  8  8",
        "",
        "Expiration",
        "  after 720h, regardless of budgets",
        "",
        "+ more for part of the hour",
    ]


def test_a_snapshot_brings_its_own_number_of_nodes_and_its_own_day():
    found = cluster(worker("a"), worker("b"), pools=[nodepool(disruption={"budgets": [{"nodes": "50%"}]})])
    result = budgets("default", "--snapshot", "-", "-o", "json", stdin=snapshot_bytes(found))
    document = json.loads(result.stdout)
    assert (document["nodes"], document["from"]) == (2, "2026-01-05T00:00:00Z")
    hours = document["actions"]["Consolidation"]
    assert len(hours) == 7 * 24
    assert hours[25] == {"hour": "2026-01-06T01:00:00Z", "least": 1, "most": 1}


def test_hours_without_budget_have_a_star_and_months_are_named_when_they_matter(manifest):
    path = manifest({"nodes": "1", "schedule": "0 9 * * *", "duration": "1h"})
    result = budgets("default", "-f", path, "--from", "2026-01-01", "--days", 40)
    assert "Sun 01 Feb" in result.stdout
    assert "* no limit: no budget is in force" in result.stdout
    assert "how many nodes may be disrupted at once" in result.stdout


def test_an_invalid_budget_is_shown_as_blocked(manifest):
    result = budgets("default", "-f", manifest({"nodes": "1", "schedule": "0 9 * * *"}), "--days", 1)
    assert result.exit_code == 0
    assert "Blocked: a budget is invalid, so nothing is disrupted" in result.stdout


def test_a_percentage_in_a_manifest_needs_a_number_of_nodes(manifest):
    result = budgets("default", "-f", manifest({"nodes": "10%"}))
    assert result.exit_code == 2
    assert "add --nodes" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("defalt", "-f", "POOL"), "there is no nodepool 'defalt'; did you mean 'default'?"),
        (("default", "-f", "absent.yaml"), "absent.yaml: cannot be read"),
        (("default", "-f", "POOL", "--snapshot", "x.json"), "cannot be combined with --snapshot"),
        (("default", "-f", "POOL", "--from", "soon"), "soon"),
        (("default", "-f", "POOL", "--days", "0"), "--days"),
    ],
)
def test_what_cannot_be_done_ends_with_2_and_the_reason(arguments, words, manifest):
    path = manifest({"nodes": "1"})
    result = budgets(*(path if each == "POOL" else each for each in arguments))
    assert result.exit_code == 2
    assert words in result.stderr


def test_an_invalid_manifest_is_reported_with_its_fault(manifest):
    result = budgets("default", "-f", manifest({"nodes": "1", "schedule": "0 9 * * *", "duration": "soon"}))
    assert result.exit_code == 2
    assert "duration" in result.stderr


def test_a_terminal_shows_what_is_allowed_in_colours_and_fits_80_columns():
    pool = nodepool(disruption={"budgets": [{"nodes": "100%"}, OFFICE]})
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, color_system="standard", width=80)
    draw_map(console, "default", draw_calendar(pool, 9, datetime(2026, 1, 5, tzinfo=UTC), 24))
    assert "\x1b[37;41m  0\x1b[0m" in screen.getvalue()
    assert "\x1b[30;102m  9\x1b[0m" in screen.getvalue()
    plain = io.StringIO()
    draw_map(Console(file=plain, width=80), "default", draw_calendar(pool, 9, datetime(2026, 1, 5, tzinfo=UTC), 24))
    assert max(map(len, plain.getvalue().splitlines())) <= 80


def hours_of(document, tmp_path):
    path = tmp_path / "pool.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    result = budgets("default", "-f", path, "--nodes", 40, "--days", 1, "-o", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (budgeted({"nodes": "5"}), "after 720h, regardless of budgets"),
        (pool(template={"expireAfter": "48h"}), "after 48h, regardless of budgets"),
        (
            pool(template={"expireAfter": "48h"}, disruption={"expireAfter": "Never"}),
            "after 48h, regardless of budgets",
        ),
        (pool(template={"expireAfter": "Never"}), "nodes never expire"),
        (disrupted(actionControls={"Expiration": {"disruptAfter": "Never"}}), "nodes never expire"),
    ],
)
def test_no_ceiling_is_shown_for_expiration_where_no_budget_applies_to_it(document, words, tmp_path):
    told = hours_of(document, tmp_path)
    assert told["withoutBudgets"] == {"Expiration": words}
    assert sorted(told["actions"]) == ["Consolidation", "Drift", "Emptiness"]


@pytest.mark.parametrize(
    "document",
    [
        disrupted(expireAfter="24h", budgets=[{"nodes": "5"}]),
        disrupted("v1beta1", budgets=[{"nodes": "5"}]),  # soft, 720h, by its default
        disrupted(actionControls={"Expiration": {"disruptAfter": "24h"}}, budgets=[{"nodes": "5"}]),
        pool(template={"expireAfter": "48h"}, disruption={"expireAfter": "24h", "budgets": [{"nodes": "5"}]}),
    ],
)
def test_soft_expiration_has_the_ceiling_of_its_budgets(document, tmp_path):
    told = hours_of(document, tmp_path)
    assert told["withoutBudgets"] == {}
    assert {hour["least"] for hour in told["actions"]["Expiration"]} == {5}
