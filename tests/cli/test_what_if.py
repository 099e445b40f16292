"""`dovetail what-if`: the plan before and after a change of NodePools. Truths are worked out by hand.

The example costs $13 an hour on Monday at noon. NodePool batch (consolidateAfter 10m, one node at a time) has the empty
nodes batch-1 (m.huge, $4) and batch-2 (m.large, $1), and batch-3 ($1), which is not empty. NodePool general
(consolidateAfter 30m) allows no consolidation until 17:10. The pods of general-2 changed at 11:40.
"""

import json
from dataclasses import replace

import msgspec
import pytest
import yaml
from typer.testing import CliRunner

from acceptance.fleet import cluster, free, running, worker
from builders import nodepool
from docs.pages import ROOT
from dovetail.cli.app import app
from dovetail.core.lifecycle.nodepool_hash import hash_annotations
from dovetail.model.unreadable_objects import UnreadableEntry

EXAMPLE = ROOT / "examples" / "snapshots" / "office-hours.yaml"
TWO_AT_A_TIME = "nodepool/batch.spec.disruption.budgets[0].nodes=2"


def what_if(*sets, snapshot=EXAMPLE, options=()):
    given = [word for each in sets for word in ("--set", each)]
    return CliRunner().invoke(app, ["what-if", "--snapshot", str(snapshot), *given, *options])


def document(*sets, **fields):
    result = what_if(*sets, options=("-o", "json", *fields.pop("options", ())), **fields)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_wider_budget_lets_a_second_node_leave():
    found = document(TWO_AT_A_TIME)
    assert found["planChanges"]
    assert [each["nodes"] for each in found["before"]["commands"]] == [["batch-1"]]
    assert sorted(name for each in found["after"]["commands"] for name in each["nodes"]) == ["batch-1", "batch-2"]
    assert (found["before"]["costPerHourAfter"], found["after"]["costPerHourAfter"]) == (9.0, 8.0)
    (unblocked,) = found["unblocked"]
    assert unblocked["node"] == "batch-2"
    assert unblocked["before"].startswith("Can leave in a later pass by emptiness: budget '1' of NodePool batch")
    assert unblocked["after"] == "delete (Empty)"
    assert (found["blocked"], found["otherCommand"], found["otherObstacle"]) == ([], [], [])
    assert [each["effect"] for each in found["settings"]] == ["plan"]


def test_the_answer_is_in_the_first_line():
    first = what_if(TWO_AT_A_TIME).stdout.splitlines()[:2]
    assert first == [
        "The next pass removes 2 nodes instead of 1; $8.00 an hour after it instead of $9.00.",
        "  NodePool batch, spec.disruption.budgets[0].nodes: 1 -> 2",
    ]


def test_a_tighter_policy_blocks_what_left_before():
    found = document("nodepool/batch.spec.disruption.consolidateAfter=Never")
    assert [each["node"] for each in found["blocked"]] == ["batch-1"]
    assert found["blocked"][0]["before"] == "delete (Empty)"
    assert found["after"]["leaving"]["nodes"] == 0
    assert found["after"]["costPerHourAfter"] == 13.0


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("30m", "is already 30m."),
        ("1800s", "is already 30m, which is the same as 1800s."),
    ],
)
def test_a_setting_that_the_nodepool_already_has_is_named(value, words):
    text = what_if(f"nodepool/general.spec.disruption.consolidateAfter={value}").stdout
    assert text == f"Nothing changes: spec.disruption.consolidateAfter of NodePool general {words}\n"


def test_a_default_that_is_written_out_changes_nothing():
    found = document("nodepool/general.spec.disruption.consolidationPolicy=WhenEmptyOrUnderutilized")
    (setting,) = found["settings"]
    assert setting["effect"] == "none"
    assert "is WhenEmptyOrUnderutilized by default" in setting["message"]


def test_a_setting_that_changes_the_nodepool_but_not_the_plan_says_why():
    # batch-1 leaves anyway, the budget keeps batch-2, and batch-3 is not empty: 9 minutes have passed for all of them.
    (setting,) = document("nodepool/batch.spec.disruption.consolidateAfter=9m")["settings"]
    assert setting["effect"] == "nodepool"
    assert setting["message"].startswith(
        "changes NodePool batch but not the plan, because disruption budget '1' of NodePool batch allows 1 for Empty"
        " keeps batch-2; "
    )


def test_a_node_that_one_obstacle_keeps_instead_of_another_is_shown():
    found = document("nodepool/general.spec.disruption.consolidateAfter=5m")
    assert not found["planChanges"]
    (other,) = found["otherObstacle"]
    assert other["node"] == "general-2"
    closed = (
        "Can leave from 17:10 UTC by single-node consolidation: "
        "budget 3 of 3 ('0') of NodePool general allows 0 of 4 nodes until 17:10 UTC"
    )
    assert other["before"] == f"{closed}; inside its consolidateAfter window until 12:10 UTC"
    assert other["after"] == closed
    assert found["settings"][0]["effect"] == "obstacles"


def test_nodes_that_another_method_would_take_are_left_for_a_later_pass():
    # Without the window, general-1 and general-2 could be consolidated, but emptiness acts first.
    found = document("nodepool/general.spec.disruption.budgets=[{nodes: 50%}]", "spec.disruption.consolidateAfter=5m")
    later = [each for each in found["after"]["blocked"] if each["by"] == "later pass"]
    assert sorted(name for each in later for name in each["nodes"]) == ["general-1", "general-2"]
    assert not any(each["by"] == "later pass" for each in found["before"]["blocked"])


def test_a_path_without_a_nodepool_changes_every_nodepool():
    (setting,) = document("spec.disruption.consolidateAfter=5m")["settings"]
    assert [(each["nodepool"], each["before"], each["after"]) for each in setting["nodepools"]] == [
        ("batch", "10m", "5m"),
        ("general", "30m", "5m"),
    ]


def test_of_several_settings_each_without_effect_is_named():
    found = document(TWO_AT_A_TIME, "nodepool/general.spec.limits.cpu=200")
    assert [each["effect"] for each in found["settings"]] == ["plan", "nodepool"]
    assert found["settings"][1]["message"].endswith("because limits apply when a node is launched")


def test_a_nodepool_that_already_has_the_value_is_not_listed_as_changed():
    """NodePool batch has 10m, general 30m."""
    lines = what_if("spec.disruption.consolidateAfter=10m").stdout.splitlines()
    assert [each for each in lines if " -> " in each] == [
        "  NodePool general, spec.disruption.consolidateAfter: 30m -> 10m"
    ]


def test_later_settings_apply_on_top_of_earlier_ones():
    found = document(
        "nodepool/batch.spec.disruption.budgets[0].schedule='@daily'",
        "nodepool/batch.spec.disruption.budgets[0].duration=1h",  # neither is valid alone
    )
    assert len(found["unblocked"]) == 1  # the window is from midnight to one: at noon there is no limit


def test_a_changed_template_makes_nodes_drift(kept):
    pool = nodepool(disruption={"budgets": [{"nodes": "100%"}], "consolidationPolicy": "WhenEmpty"})
    launched = {"claim": {"metadata": {"annotations": hash_annotations(pool)}}}
    path = kept(cluster(worker("a", running("x", "a"), **launched), pools=[pool]))
    found = document("spec.template.metadata.labels.team=shop", snapshot=path)
    assert (found["before"]["leaving"]["byReason"], found["after"]["leaving"]["byReason"]) == ({}, {"Drifted": 1})
    assert (
        found["after"]["drifted"][0]["message"] == "NodePoolDrifted: spec.template.metadata.labels[team]: none -> shop"
    )


@pytest.mark.parametrize(
    "setting",
    [
        "spec.disruption.consolidationGracePeriod=25h",
        'metadata.annotations["dovetail.sh/consolidation-grace-period"]=25h',
    ],
)
def test_a_field_that_an_annotation_spells_is_set_in_either_spelling(kept, setting):
    pool = free()
    annotations = {"dovetail.sh/consolidation-grace-period": "10m"}
    pool = msgspec.structs.replace(pool, metadata=msgspec.structs.replace(pool.metadata, annotations=annotations))
    found = document(setting, snapshot=kept(cluster(worker("a"), pools=[pool])))
    (blocked,) = found["blocked"]  # the node is a day old
    assert (
        blocked["after"] == "Can leave from 13:00 UTC by emptiness: inside its consolidationGracePeriod until 13:00 UTC"
    )


def test_a_nodepool_without_nodes_says_so(kept):
    path = kept(cluster(worker("a", running("x", "a")), pools=[free(), nodepool("spare")]))
    (setting,) = document("nodepool/spare.spec.disruption.consolidateAfter=1h", snapshot=path)["settings"]
    assert setting["message"] == "changes NodePool spare but not the plan, because NodePool spare has no nodes"


@pytest.mark.parametrize(
    ("sets", "words"),
    [
        (["nodepool/genral.spec.weight=1"], "there is no NodePool 'genral'; did you mean 'general'?"),
        (["pod/x.spec.y=1"], "changes a pod, but only NodePools can be changed"),
        (["scenario.seed=1"], "only NodePools can be changed"),
        (["consolidateAfter=5m"], "is not of the form"),
        (["spec.template.spec.nodeClassRef.name=x"], "whose instance types are not in the snapshot"),
        (["metadata.name=x"], "is not a field of spec, nor a label or annotation"),
        (["nodepool/general.status.nodes=1"], "is not a field of spec"),
        (["nodepool/general.spec.disruption.budgets[9].nodes=1"], "the list has no item 9 (NodePool general)"),
        (
            ["spec.disruption.consolidateAftr=5m"],
            "NodePool batch: spec.disruption.consolidateAftr: is not a field here",
        ),
        (
            ["nodepool/general.spec.disruption.consolidateAfter=5x"],
            "NodePool general: spec.disruption.consolidateAfter: does not have the expected form (got '5x'); write a",
        ),
    ],
)
def test_faults_name_the_setting_or_the_path_and_the_fix(sets, words):
    result = what_if(*sets)
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stdout == ""


def test_all_faults_are_reported_together():
    result = what_if("spec.disruption.consolidateAfter=5x", "nodepool/batch.spec.weight=many")
    assert len(result.stderr.splitlines()) == 3  # consolidateAfter of both NodePools, and weight
    assert "NodePool batch: spec.weight" in result.stderr


def test_faults_are_those_of_validate(tmp_path):
    manifest = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "general"},
        "spec": {
            "disruption": {"consolidateAfter": "5x"},
            "template": {
                "spec": {
                    "requirements": [],
                    "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                }
            },
        },
    }
    path = tmp_path / "pool.yaml"
    path.write_text(yaml.safe_dump(manifest))
    reported = CliRunner().invoke(app, ["validate", str(path), "-o", "json"])
    (fault,) = json.loads(reported.stdout)["documents"][0]["faults"]
    told = what_if("nodepool/general.spec.disruption.consolidateAfter=5x").stderr
    assert f"{fault['path']}: {fault['problem']}" in told
    assert fault["remedy"] in told


def test_faults_that_a_nodepool_already_has_do_not_stop_other_settings(kept):
    found = cluster(worker("a"), pools=[free()])
    pool = found.nodepools["default"]
    budgets = msgspec.structs.replace(pool.spec.disruption.budgets[0], schedule="@daily")  # without a duration
    disruption = msgspec.structs.replace(pool.spec.disruption, budgets=(budgets,))
    broken = msgspec.structs.replace(pool, spec=msgspec.structs.replace(pool.spec, disruption=disruption))
    path = kept(replace(found, nodepools={"default": broken}))
    assert document("spec.weight=5", snapshot=path)["after"]["leaving"]["nodes"] == 0
    repaired = document("spec.disruption.budgets=[{nodes: 100%}]", snapshot=path)
    assert [each["node"] for each in repaired["unblocked"]] == ["a"]


def test_new_warnings_go_to_standard_error():
    result = what_if("nodepool/batch.spec.disruption.budgets[0].nodes=0")
    assert result.exit_code == 0
    assert "Warning: NodePool batch: spec.disruption.budgets[0]: allows no node to be disrupted" in result.stderr


def test_simulating_onward_compares_with_and_without_the_change():
    found = document("nodepool/batch.spec.disruption.consolidateAfter=Never", options=("--for", "1h"))
    now, changed = found["simulated"]["variants"]
    assert (now["variant"], changed["variant"]) == ("now", "changed")
    assert (now["disruptionsByReason"], changed["disruptionsByReason"]) == ({"Empty": 2}, {})
    assert changed["cost"] == pytest.approx(13.0)
    assert now["cost"] == pytest.approx(8.0, abs=0.2)  # batch-1 and batch-2 are gone within a minute or two


def test_the_end_states_are_compared_too():
    # Without the change only batch-3 and general-4 stay ($5). With it, all of batch stay ($6), and general-4.
    found = document("nodepool/batch.spec.disruption.consolidateAfter=Never", options=("--until-stable",))
    before, after = found["untilStable"]["before"], found["untilStable"]["after"]
    assert (before["costPerHourAfter"], after["costPerHourAfter"]) == (5.0, 10.0)
    text = what_if(
        "nodepool/batch.spec.disruption.consolidateAfter=Never", options=("--until-stable",)
    ).stdout.splitlines()
    assert text[1] == "When nothing more changes: 4 nodes for $10.00 an hour instead of 2 nodes for $5.00."


@pytest.mark.parametrize("lasts", ["0s", "soon"])
def test_an_invalid_time_to_simulate_ends_with_2(lasts):
    assert what_if(TWO_AT_A_TIME, options=("--for", lasts)).exit_code == 2


@pytest.mark.parametrize("options", [("--for", "1h"), ("--until-stable",)])
def test_unreadable_objects_cannot_be_simulated_onward(kept, options):
    bad = UnreadableEntry(kind="Pod", namespace="shop", name="web-1", problem="spec: expected object", everywhere=True)
    path = kept(replace(cluster(worker("a")), unreadable=(bad,)))
    result = what_if("spec.weight=5", snapshot=path, options=options)
    assert result.exit_code == 2
    assert "Pod shop/web-1 cannot be read" in result.stderr


def test_at_least_one_setting_is_required():
    result = CliRunner().invoke(app, ["what-if", "--snapshot", str(EXAMPLE)])
    assert result.exit_code == 2
    assert "--set" in result.stderr


def test_yaml_has_the_same_as_json():
    written = what_if(TWO_AT_A_TIME, options=("-o", "yaml")).stdout
    assert yaml.safe_load(written) == document(TWO_AT_A_TIME)
