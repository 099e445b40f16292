"""`dovetail simulate`: documented instants, figures that add up, what-if, and the same report wherever it runs."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dovetail.cli.app import app
from dovetail.cli.simulation.loader import load, plan_runs

EXAMPLES = Path(__file__).parents[2] / "examples" / "scenarios"
DEMO = Path(__file__).parents[2] / "src" / "dovetail" / "cli" / "demo" / "scenario.yaml"
GRACE = "nodepool/default.spec.disruption.consolidationGracePeriod"


def typed(*arguments):
    return CliRunner().invoke(app, ["simulate", *map(str, arguments)])


def told(*arguments):
    result = typed(*arguments, "-o", "json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def moments(report, what):
    return [each["at"] for each in report["timeline"] if each["what"] == what]


MINUTE, HOUR = 60.0, 3600.0
VALIDATION = 15.0  # what consolidation chose is looked at again after so many seconds


def at(seconds):
    """An instant of a story; calls take a few milliseconds."""
    return pytest.approx(seconds, abs=0.5)


@pytest.mark.parametrize(("grace", "visible"), [("30m", 35), ("20m", 25)])
def test_the_grace_period_timeline(grace, visible):
    """A node comes at 1 minute and its last pod event is at 5; until 35 it does not exist for consolidation."""
    report = told(EXAMPLES / "grace-period.yaml", "--set", f"{GRACE}={grace}")
    assert moments(report, "launched") == [at(1), at(1), at(1), at(1 * MINUTE + 1)]
    (disrupted,) = moments(report, "disrupted")
    assert disrupted == at(visible * MINUTE + VALIDATION)
    assert report["timeline"][-1]["node"] == report["timeline"][3]["node"]
    assert report["evictions"] == 0


def test_without_the_grace_period_the_node_is_removed_half_a_minute_after_its_pods():
    """consolidateAfter alone: 30 seconds from 5 minutes on, seen by the next pass."""
    (disrupted,) = moments(told(EXAMPLES / "grace-period.yaml", "--set", f"{GRACE}=Never"), "disrupted")
    assert 5 * MINUTE + 30 + VALIDATION <= disrupted <= 5 * MINUTE + 30 + VALIDATION + 10


def test_the_layered_protection_timeline():
    """0-4 hours: protected. From 4 hours on: open to disruption, budgets respected. By 72 hours: forced."""
    report = told(EXAMPLES / "layered-protection.yaml", "--for", "73h")
    graceful, stuck = (
        {each["what"]: each["at"] for each in report["timeline"][::-1] if each["nodePool"] == pool}
        for pool in ("graceful", "stuck")
    )
    asked, grace = 6 * MINUTE, 30
    assert (graceful["disrupted"], stuck["disrupted"]) == (at(asked), at(asked))
    assert graceful["draining"] == at(4 * HOUR)
    assert graceful["gone"] == pytest.approx(4 * HOUR, abs=10)
    assert "forced" not in graceful
    assert "draining" not in stuck, "its budget never gives way"
    assert stuck["forced"] == at(72 * HOUR + asked - grace)
    assert stuck["forced"] < stuck["gone"] <= 72 * HOUR + asked
    assert report["evictions"] == 1


MISHAPS = """
  workloads:
    - {name: steady, cpu: 2500m, memory: 1Gi, replicas: 3}
  events:
    - {at: 5m, interrupt: {nodes: 1}}
    - {at: 10m, fail: {nodes: 1}}
"""


def test_interruptions_and_failures_take_nodes_and_others_come(tmp_path):
    """A spot warning is acted on at once; a machine that is gone without a word is noticed when it falls silent."""
    scenario = tmp_path / "mishaps.yaml"
    scenario.write_text(
        (EXAMPLES / "grace-period.yaml").read_text().partition("  workloads:")[0] + MISHAPS.lstrip("\n")
    )
    report = told(scenario, "--for", "20m")
    first, second = [each for each in report["timeline"] if each["what"] == "disrupted"]
    assert (first["reason"], first["at"]) == ("Interrupted", at(5 * MINUTE))
    assert moments(report, "draining") == [at(5 * MINUTE)]
    assert 10 * MINUTE < second["at"] < 13 * MINUTE
    assert [each < 7 * MINUTE for each in moments(report, "gone")] == [True, False], "before its two minutes are over"
    assert report["nodes"] == {"launched": 5, "removed": 2, "most": 4}
    assert report["pending"]["stillWaiting"] == 0


LOST_IN_THE_DRAIN = """
  workloads:
    - {name: steady, cpu: 2500m, memory: 1Gi, replicas: 1, maxUnavailable: 0}
  events:
    - {at: 5m, deleteNodes: {nodes: 1}}
    - {at: 10m, fail: {nodes: 1, draining: true}}
"""


def test_an_instance_can_fail_during_a_drain(tmp_path):
    """A budget that never opens would have held the drain for ever; what is lost holds nothing."""
    scenario = tmp_path / "lost.yaml"
    scenario.write_text(
        (EXAMPLES / "grace-period.yaml").read_text().partition("  workloads:")[0] + LOST_IN_THE_DRAIN.lstrip("\n")
    )
    report = told(scenario, "--for", "20m")
    (gone,) = moments(report, "gone")
    assert 10 * MINUTE + 40 <= gone <= 10 * MINUTE + 55, "when its silence is noticed"
    assert report["pending"]["stillWaiting"] == 0


def test_cost_is_what_the_nodes_were_there_for():
    report = told(EXAMPLES / "grace-period.yaml")
    price = 0.10859  # of the only type it may buy
    launched, gone = moments(report, "launched"), moments(report, "gone")
    hours = (4 * 3600 - sum(launched) - (3600 - gone[0])) / 3600
    assert report["cost"]["total"] == pytest.approx(price * hours, rel=0.001)
    assert report["nodes"]["most"] == 4
    assert report["nodePools"]["default"]["budgets"] == {"written": ["1"], "mostUsed": 1, "ofNodes": 4}
    assert report["cost"]["total"] >= report["cost"]["lowerBound"]
    assert sum(day["cost"] for day in report["days"]) == pytest.approx(report["cost"]["total"], abs=1e-3)


def test_the_floor_counts_pods_for_as_long_as_they_had_a_node(tmp_path):
    """Bursts of six minutes around every full hour: to one who looks at full hours alone, they seem to run always."""
    story = (EXAMPLES / "grace-period.yaml").read_text()
    head, _, _ = story.partition("  workloads:")
    bursts = [f"{hour * 60 - 3}m" for hour in (1, 2)]
    happen = "".join(
        f"    - {{name: burst-{start}, cpu: 3500m, memory: 1Gi, turns: [{{at: {start}, replicas: 2}},"
        f" {{at: {int(start[:-1]) + 6}m, replicas: 0}}]}}\n"
        for start in bursts
    )
    scenario = tmp_path / "bursts.yaml"
    scenario.write_text(f"{head}  workloads:\n{happen}")
    report = told(scenario, "--for", "2h", "--set", f"{GRACE}=Never")
    assert report["nodes"]["launched"] == 4
    assert 0 < report["cost"]["lowerBound"] < report["cost"]["total"]
    priced = report["cost"]["lowerBound"] / 0.10859
    assert priced == pytest.approx(2 * (6 + 3) / 60 * 3.5 / 3.9, rel=0.02), "node hours that two pods filled"


def test_the_same_seed_gives_the_same_report_and_another_gives_another():
    week = EXAMPLES / "web-week.yaml"
    first, again, other = (told(week, "--for", "3h", "--set", f"scenario.seed={seed}") for seed in (5, 5, 6))
    assert first == again
    assert first != other


def test_variants_stand_side_by_side_and_the_html_needs_nothing_else(tmp_path):
    page = tmp_path / "report.html"
    result = typed(EXAMPLES / "grace-period.yaml", "--compare", "--set", f"{GRACE}=Never", "--html", page, "-o", "json")
    assert result.exit_code == 0, result.stderr
    base, without = json.loads(result.stdout)["variants"]
    assert base["variant"] == "baseline"
    assert without["difference"]["cost"] == pytest.approx(without["cost"] - base["cost"], abs=1e-3)
    assert without["cost"] < base["cost"]
    text = page.read_text()
    assert "<svg" in text
    assert "http://" not in text.replace("http-equiv", "")
    assert "<script" not in text


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--set", "nodepool/other.spec.weight=1"], "has no nodepool/other; it has"),
        (["--set", "consolidateAfter=5m"], "is not of the form"),
        (["--set", "nodepool/default.spec.disruption.budgets[7].nodes=1"], "the list has no item 7"),
        (["--set", "nodepool/default.spec.disruption.consolidateAfter=soon"], "consolidateAfter"),
        (["--set", "scenario.catalog=cheap"], "catalog"),
        (["--compare"], "--compare requires at least one --set"),
        (["--sweep", f"{GRACE}=1m,2m", "--compare"], "--compare and --sweep cannot be combined"),
        (["--seeds", "many"], "--seeds must be"),
        (["--set", "nodepool/default.spec.disruption.consolidateAfterr=5m"], "did you mean consolidateAfter?"),
        (["--set", "scenario.workloads[0].cpu=[1"], "is not valid YAML"),
        (["--set", "nonsense", "--set", "nodepool.spec.weight=1"], "does not say which nodepool"),
        (["--sweep", f"{GRACE}=1m,soon"], "consolidationGracePeriod"),
        (["--html", "/nowhere/report.html"], "--html: /nowhere/report.html cannot be written"),
        (["--for", "never"], "spec.for"),
        (["--dask", "tcp://127.0.0.1:1"], "no Dask scheduler answers"),
    ],
)
def test_invalid_options_are_reported_before_any_run(arguments, why):
    result = typed(EXAMPLES / "grace-period.yaml", *arguments)
    assert result.exit_code == 2
    assert why in result.stderr


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_example_can_be_run(example):
    document, name, folder = load(example)
    variants, trace = plan_runs(document, name, folder, sets=[], sweeps=[], seeds="", lasts=None, compare=False)
    assert [variant.scenario.name for variant in variants] == [example.stem]
    assert bool(trace) is bool(variants[0].scenario.trace)


BAD = """
apiVersion: dovetail.sh/v1alpha1
kind: Scenario
spec:
  fro: 3d
  files: [missing.yaml]
  trace: holes.csv
  settings: {featureGates: "Drift=false", batch_idle_duration: soon}
  generate: {nodes: 3, pods: 3, nodepools: {other: 1}}
  objects:
    - apiVersion: karpenter.sh/v1
      kind: NodePool
      metadata: {name: default}
      spec:
        template:
          spec:
            nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
            requirements: []
        disruption: {consolidateAfter: soon, budget: []}
    - {kind: Pod}
    - {apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: many}}
  workloads:
    - {name: web, cpu: much, replica: 3}
"""


def test_all_faults_of_a_scenario_are_reported_together(tmp_path):
    """The document, its objects, its settings, the files it names and the trace it follows."""
    bad = tmp_path / "bad.yaml"
    bad.write_text(BAD)
    (tmp_path / "holes.csv").write_text("name,arrive,cpu,memory\na,,1,1Gi\nb,0,1,\n")
    result = typed(bad)
    assert result.exit_code == 2
    for line in (
        "spec.fro: is not known; did you mean for?",
        "spec.workloads[0].cpu: 'much' is not a quantity",
        "spec.workloads[0].replica: is not known; did you mean replicas?",
        "spec.workloads[0]: needs exactly one of replicas, turns, daily and runs",
        "spec.objects[0].spec.disruption.consolidateAfter: does not have the expected form",
        "spec.objects[0].spec.disruption.budget: is not a field here and would be dropped; did you mean budgets?",
        "spec.objects[1]: needs apiVersion, kind and metadata.name",
        "spec.objects[2].spec.replicas: must be a whole number >= 0 (got 'many')",
        "spec.objects[2].spec.template.spec.containers: must be a list of containers",
        "spec.generate.nodepools.other: there is no such NodePool; there are: default",
        "spec.settings.featureGates: is not a setting; did you mean feature_gates?",
        "spec.settings.batch_idle_duration: 'soon' is not a duration",
        "spec.files[0]: 'missing.yaml' cannot be read: No such file or directory",
        "holes.csv: line 2: arrive is missing",
        "holes.csv: line 3: memory is missing",
    ):
        assert f"{bad}: {line}" in result.stderr
    assert len(result.stderr.splitlines()) == 15


def test_an_object_that_the_cluster_refuses_later_ends_the_run(tmp_path):
    """What is patched after it changed cannot be judged ahead."""
    scenario = tmp_path / "refused.yaml"
    made = "{at: 30s, apply: {apiVersion: karpenter.kwok.sh/v1alpha1, kind: KWOKNodeClass, metadata: {name: late}}}"
    weighed = "{at: 1m, patch: {kind: KWOKNodeClass, name: late, patch: {spec: {nodeRegistrationDelay: soon}}}}"
    scenario.write_text(f"{(EXAMPLES / 'grace-period.yaml').read_text()}  events: [{made}, {weighed}]\n")
    result = typed(scenario, "--for", "2m")
    assert result.exit_code == 2
    assert "the scenario could not continue" in result.stderr
    assert "nodeRegistrationDelay" in result.stderr


def test_an_event_without_a_target_is_noted(tmp_path):
    scenario = tmp_path / "idle.yaml"
    scenario.write_text(
        (EXAMPLES / "grace-period.yaml").read_text()
        + """
  events:
    - {at: 1m, every: 1m, interrupt: {nodes: 50%, capacityType: spot}}
    - {at: 9h, fail: {nodes: 1}}
    - {at: 1m, patch: {kind: NodePool, name: other, patch: {}}}
"""
    )
    assert told(scenario, "--for", "3m")["missed"] == [
        "events[0] found nothing to act on at 0:01:00",
        "events[1] is after the end of the scenario",
        "events[2] found nothing to act on at 0:01:00",
    ]


def test_a_missing_file_and_an_invalid_document_are_reported(tmp_path):
    assert "No such file" in typed(tmp_path / "none.yaml").stderr
    bad = tmp_path / "bad.yaml"
    bad.write_text("kind: Pod\nspec: {workloads: [{name: a}], trace: t.csv}\n")
    result = typed(bad)
    assert result.exit_code == 2
    assert "apiVersion" in result.stderr
    assert "spec.workloads[0]: needs exactly one of" in result.stderr


def test_a_scenario_can_start_from_a_snapshot(tmp_path):
    """The office's nodes are there from the start and cost; what its plan promises happens in the story."""
    source = EXAMPLES.parent / "snapshots" / "office-hours.yaml"
    scenario = tmp_path / "office.yaml"
    scenario.write_text(
        "apiVersion: dovetail.sh/v1alpha1\nkind: Scenario\nmetadata: {name: office}\n"
        f"spec: {{for: 10m, snapshot: {source}}}\n"
    )
    report = told(scenario)
    assert report["start"] == "2026-01-05T12:00:00Z"
    assert report["nodes"]["launched"] == 0
    first = report["timeline"][0]
    assert (first["what"], first["node"], first["reason"]) == ("disrupted", "batch-1", "Empty")
    assert {each["node"] for each in report["timeline"]} == {"batch-1", "batch-2"}


QUIET = """
apiVersion: dovetail.sh/v1alpha1
kind: Scenario
metadata: {name: made-up}
spec:
  for: 30m
  generate:
    nodes: 12
    pods: 90
    workloads: 7
    nodepools: {default: 3, tainted: 1}
    mix: [{cpu: 500m, memory: 1Gi, maxUnavailable: 1}]
  objects:
    - {apiVersion: karpenter.kwok.sh/v1alpha1, kind: KWOKNodeClass, metadata: {name: special}}
    - apiVersion: karpenter.sh/v1
      kind: NodePool
      metadata: {name: default}
      spec:
        template:
          metadata: {labels: {team: a}}
          spec:
            nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: special}
            requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]
        disruption: {consolidateAfter: Never}
    - apiVersion: karpenter.sh/v1
      kind: NodePool
      metadata: {name: tainted}
      spec:
        template:
          spec:
            nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: special}
            taints: [{key: t, value: "1", effect: NoSchedule}]
            requirements: []
        disruption: {consolidateAfter: Never}
"""


def test_a_generated_cluster_is_at_rest(tmp_path):
    """Nobody tells it from one that has been there for a while: nothing drifts, nothing waits, nothing is replaced."""
    scenario = tmp_path / "quiet.yaml"
    scenario.write_text(QUIET)
    report = told(scenario)
    assert (report["nodes"], report["timeline"]) == ({"launched": 0, "removed": 0, "most": 12}, [])
    assert (report["evictions"], report["pending"]["started"]) == (0, 0)
    assert len(report["samples"]) == 30
    assert all((each["nodes"], each["pods"], each["pending"]) == (12, 90, 0) for each in report["samples"])
    assert report["nodePools"]["default"]["mostNodes"] == 9
    assert report["cost"]["total"] == pytest.approx(report["samples"][0]["cost"] / 2, rel=1e-3)
    assert 0 < report["cost"]["lowerBound"] < report["cost"]["total"]
    assert told(scenario, "--set", "scenario.generate.seed=9")["cost"] != report["cost"]


def test_a_generated_cluster_that_cannot_be_is_refused_wherever_it_runs(tmp_path):
    scenario = tmp_path / "crowded.yaml"
    scenario.write_text(QUIET)
    much = "scenario.generate.pods=9000"
    for arguments in (["--set", much], ["--set", much, "--compare"]):
        result = typed(scenario, *arguments, "--for", "1m")
        assert result.exit_code == 2
        assert "pods do not fit" in result.stderr
        assert "use more nodes" in result.stderr


def test_the_scenario_of_the_demo_can_be_simulated():
    report = told(DEMO, "--for", "12m")
    assert report["scenario"] == "demo"
    assert report["nodes"]["launched"] > 0
    assert report["missed"][0] == "events[1] is after the end of the scenario"


def test_the_old_name_of_events_is_read_with_a_warning(tmp_path):
    scenario = tmp_path / "old.yaml"
    scenario.write_text(
        f"{(EXAMPLES / 'grace-period.yaml').read_text()}  happenings: [{{at: 9h, fail: {{nodes: 1}}}}]\n"
    )
    result = typed(scenario, "--for", "1m", "-o", "json")
    assert result.exit_code == 0
    assert "spec.happenings: is deprecated" in result.stderr
    assert json.loads(result.stdout)["missed"] == ["events[0] is after the end of the scenario"]
