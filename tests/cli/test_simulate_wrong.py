"""`dovetail simulate` with invalid input: all faults are reported together with their paths, never a traceback."""

import multiprocessing
import signal
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dovetail.cli.app import app
from dovetail.cli.simulation.loader import load, plan_runs
from dovetail.cli.simulation.runner import run_here, run_scenario
from dovetail.cli.simulation.variants import read_setting, read_sweep

EXAMPLES = Path(__file__).parents[2] / "examples" / "scenarios"
GRACE = EXAMPLES / "grace-period.yaml"
POOL = "nodepool/default.spec.disruption.consolidateAfter"


def typed(*arguments):
    return CliRunner().invoke(app, ["simulate", *map(str, arguments)])


def story(tmp_path, more):
    """The grace period's pool with other workloads or events."""
    scenario = tmp_path / "story.yaml"
    scenario.write_text(GRACE.read_text().partition("  workloads:")[0] + more)
    return scenario


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("workloads: [{name: Web_1, replicas: 1}]", "workloads[0].name: must be lowercase letters, digits and dashes"),
        ("workloads: [{name: a, namespace: A, replicas: 1}]", "workloads[0].namespace: must be lowercase letters"),
        ("workloads: [{name: a, replicas: 1, maxUnavailable: lots}]", "workloads[0].maxUnavailable: must be a number"),
        ("workloads: [{name: a, replicas: 1, maxUnavailable: -3}]", "workloads[0].maxUnavailable: must be a number"),
        (
            "workloads: [{name: a, replicas: 1, pod: {nodeSelectr: {a: b}}}]",
            "workloads[0].pod.nodeSelectr: is not a field of a pod's spec; did you mean nodeSelector?",
        ),
        ("workloads: [{name: a, replicas: 1, pod: {nodeSelector: 5}}]", "workloads[0].pod.nodeSelector: "),
        ("events: [{at: 1m, interrupt: {nodepool: other}}]", "interrupt.nodepool: there is no NodePool 'other'"),
        (
            "events: [{at: 1m, setCondition: {type: Ready, nodepool: other}}]",
            "setCondition.nodepool: there is no NodePool",
        ),
        ("events: [{at: 1m, scale: {shop: 3}}]", "scale.shop: there is no Deployment 'shop'; there are: "),
        (
            "events: [{at: 1m, patch: {kind: NodePool, patch: {spec: {weight: -5}}}}]",
            "events[0].patch.patch.spec.weight: ",
        ),
        ("events: [{at: 1m, fail: {capacityType: sport}}]", "fail.capacityType: must be one of"),
        ("events: [{at: 1m, fail: {nodes: 200%}}]", "fail.nodes: must be a number or a percentage"),
        (
            "events: [{at: 1m, apply: {apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: a}}}]",
            "events[0].apply.spec",
        ),
        (
            "events: [{at: 1m, patch: {kind: NodePool, name: default, patch: {spec: {weight: -5}}}}]",
            "events[0].patch.patch.spec.weight: ",
        ),
        ("trace: latin.csv", "spec.trace: 'latin.csv' is not text in UTF-8"),
        ("files: [latin.csv]", "spec.files[0]: 'latin.csv' is not text in UTF-8"),
    ],
)
def test_an_invalid_scenario_is_refused_before_it_runs(tmp_path, more, why):
    (tmp_path / "latin.csv").write_bytes(b"name,arrive\nM\xfcller,0\n")
    result = typed(story(tmp_path, f"  {more}\n"))
    assert result.exit_code == 2
    assert why in result.stderr
    assert not isinstance(result.exception, Exception), result.exception


def test_a_missing_scenario_is_named_once(tmp_path):
    missing = tmp_path / "none.yaml"
    result = typed(missing)
    assert (result.exit_code, result.stderr.count(str(missing))) == (2, 1)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--set", "nodepool/default.spec.template.spec.requirements={}"], "requirements: "),
        (["--set", "nodepool/default.spec.limits[0]=5"], "the list has no item 0"),
        (["--set", "nodepool/default.spec.disruption.budgets[-1].nodes=5"], "'[-1].nodes' is not a step of a path"),
        (["--for", "99999999999d"], "spec.for: '99999999999d' is longer than the limit"),
        (["--seeds", "1,1"], "--seeds has the same seed twice"),
        (["--sweep", f"{POOL}=1m,,2m"], "has an empty value"),
        (["--sweep", f"{POOL}=1m,1m"], "has the same value twice"),
        (["--compare", "--set", f"{POOL}=1m", "--set", f"{POOL}=1m"], "--compare has the same --set twice"),
        (["--sweep", f"{POOL}=1m", "--compare", "--set", f"{POOL}=2m"], "--compare and --sweep cannot be combined"),
        (["--html", "."], "cannot be written"),
        (["--set", "scenario.snapshot=other.json"], "snapshot is read before settings are applied"),
        (["--set", "scenario.settings.instance_types_file_path=none.json"], "none.json: $: cannot be read"),
        (["--seeds", "2", "--timeline"], "--timeline is for a single run"),
    ],
)
def test_invalid_options_are_reported(arguments, why):
    result = typed(GRACE, *arguments)
    assert result.exit_code == 2
    assert why in result.stderr


def test_every_value_of_every_sweep_is_judged_and_named_as_it_was_typed():
    result = typed(GRACE, "--sweep", "nodepool/other.x=1", "--sweep", f"{POOL}=1m,soon", "--set", "pod/a.x=1")
    told = result.stderr.splitlines()
    assert any(line.startswith("Error: --set pod/a.x=1: the scenario has no pod/a") for line in told)
    assert any(
        line.startswith("Error: --sweep nodepool/other.x=1: the scenario has no nodepool/other") for line in told
    )
    assert all("Traceback" not in line for line in told)


def test_a_kind_may_be_written_as_in_a_manifest_and_a_name_with_dots_in_quotes():
    setting = read_setting('NodePool/default.spec.template.metadata.labels["example.com/a=b"]=c')
    assert (setting.kind, setting.name, setting.value) == ("nodepool", "default", "c")
    assert setting.path == ("spec", "template", "metadata", "labels", "example.com/a=b")


def test_values_of_a_sweep_may_be_lists():
    assert [each.value for each in read_sweep("nodepool/a.x=[spot],[spot, on-demand],'a,b'")] == [
        ["spot"],
        ["spot", "on-demand"],
        "a,b",
    ]


def test_what_is_set_beside_a_sweep_holds_in_every_run():
    document, name, folder = load(GRACE)
    asked = {"sets": ["scenario.for=2m"], "sweeps": [f"{POOL}=1m,2m"], "seeds": "", "lasts": "3m", "compare": False}
    variants, _ = plan_runs(document, name, folder, **asked)
    told = [(each.name, each.scenario.lasts.seconds) for each in variants]
    assert told == [(f"{POOL}=1m", 120), (f"{POOL}=2m", 120)]


def test_a_report_that_cannot_be_written_in_the_end_is_still_printed():
    result = typed(GRACE, "--for", "1m", "--html", "/dev/full")
    assert result.exit_code == 1
    assert "/dev/full cannot be written" in result.stderr
    assert "Evictions" in result.stdout


def test_groups_of_a_trace_that_never_arrive_are_noted(tmp_path):
    (tmp_path / "late.csv").write_text("name,arrive,cpu,memory\na,0,1,1Gi\nb,1h,1,1Gi\n")
    result = typed(story(tmp_path, "  trace: late.csv\n"), "--for", "2m")
    assert "Note: 1 of 2 groups of the trace arrive after the end of the scenario, b first" in result.stdout


def twice(example):
    document, name, folder = load(example)
    return plan_runs(document, name, folder, sets=[], sweeps=[], seeds="2", lasts=None, compare=False)[0]


def test_ctrl_c_ends_a_run_in_order():
    """In the first minutes: what was begun is put away, and the next Ctrl-C is the usual one again."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background starts without it
    try:
        with pytest.raises(KeyboardInterrupt):
            run_scenario(twice(GRACE)[0].scenario, (), lambda _: signal.raise_signal(signal.SIGINT))
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_ctrl_c_ends_runs_in_other_processes():
    def impatient(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_here(twice(EXAMPLES / "month.yaml"), (), impatient)
    for _ in range(600):
        for process in multiprocessing.active_children():
            process.join(0.05)
    assert not multiprocessing.active_children(), "a month is not over in half a minute"


@pytest.mark.parametrize(
    "objects", ["5", "{}", "[{apiVersion: v1, kind: {a: b}, metadata: {name: x}}]", "[{kind: [x]}]"]
)
def test_objects_that_say_in_no_text_what_they_are_are_refused(tmp_path, objects):
    result = typed(story(tmp_path, f"  objects: {objects}\n"), "--set", "nodepool/x.spec.weight=5")
    assert result.exit_code == 2
    assert "Traceback" not in result.stderr
