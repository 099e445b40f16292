"""Settings of `--set` and `--sweep` that name no object."""

import pytest

from dovetail.cli.simulation.variants import apply_settings, read_setting, read_sweep
from dovetail.sim.scenario.parsing import ScenarioInvalid


def pool(name):
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": {"weight": 1}}


OTHER = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}, "spec": {}}


def weights(document):
    return {each["metadata"]["name"]: each["spec"].get("weight") for each in document["spec"]["objects"]}


def test_a_path_without_an_object_sets_the_field_of_every_nodepool():
    document = {"spec": {"objects": [pool("a"), OTHER, pool("b")]}}
    assert weights(apply_settings(document, [read_setting("spec.weight=5")])) == {"a": 5, "b": 5, "shop": None}
    named = apply_settings(document, [read_setting("nodepool/b.spec.weight=5")])
    assert weights(named) == {"a": 1, "b": 5, "shop": None}


def test_labels_of_every_nodepool_can_be_set():
    setting = read_setting("metadata.labels.team=shop")
    changed = apply_settings({"spec": {"objects": [pool("a")]}}, [setting])
    assert changed["spec"]["objects"][0]["metadata"]["labels"] == {"team": "shop"}


def test_a_sweep_over_every_nodepool():
    assert [(each.kind, each.name, each.value) for each in read_sweep("spec.weight=1,2")] == [
        ("nodepool", "", 1),
        ("nodepool", "", 2),
    ]


def test_without_a_nodepool_it_is_refused():
    with pytest.raises(ScenarioInvalid, match="has no NodePool; it has namespace/shop"):
        apply_settings({"spec": {"objects": [OTHER]}}, [read_setting("spec.weight=5")])
