"""Snapshot files: no input of a decision is lost, and no secret is written."""

import gzip
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import NOON, TYPES, build, claim, node, nodepool, pod
from dovetail.core.disruption.planner import plan_disruption
from dovetail.core.provisioning.plan import plan_provisioning
from dovetail.manifest.snapshot_file import (
    SnapshotInvalid,
    dump_snapshot,
    file_form,
    load_snapshot,
    read_snapshot_file,
    snapshot_bytes,
)
from dovetail.model.kinds import DAEMON_SET, NODE, NODE_CLAIM, POD, POD_DISRUPTION_BUDGET
from dovetail.model.snapshot import ClusterNode, Snapshot
from dovetail.model.snapshot_builder import ClusterObjects, build_snapshot, snapshot_objects
from dovetail.model.unreadable_objects import UnreadableEntry
from reference.clusters import random_cluster

PDB = {
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "web"}}},
    "status": {"disruptionsAllowed": 1, "expectedPods": 2},
}
FORMS = [("json", False), ("json", True), ("yaml", False), ("yaml", True)]


def in_order(snapshot):
    """The same cluster with everything by name, as every snapshot of a real cluster is."""
    built = build_snapshot(
        snapshot_objects(snapshot), snapshot.at, snapshot.catalogs, snapshot.well_known, snapshot.nominated
    )
    assert {each.name for each in built.nodes} == {each.name for each in snapshot.nodes}
    assert sorted(pod.key for each in built.nodes for pod in each.pods) == sorted(
        pod.key for each in snapshot.nodes for pod in each.pods
    )
    return built


@given(st.integers(0, 10_000))
def test_a_snapshot_read_back_is_the_same_snapshot(seed):
    snapshot = in_order(random_cluster(seed).snapshot)
    assert load_snapshot(dump_snapshot(snapshot)) == snapshot


@given(st.integers(0, 10_000))
def test_a_plan_made_from_the_file_is_the_plan_made_from_the_cluster(seed):
    snapshot = random_cluster(seed).snapshot
    assert plan_provisioning(load_snapshot(dump_snapshot(snapshot))) == plan_provisioning(in_order(snapshot))


@given(st.integers(0, 10_000))
def test_the_same_nodes_would_be_disrupted(seed):
    snapshot = in_order(random_cluster(seed).snapshot)
    assert plan_disruption(load_snapshot(dump_snapshot(snapshot))) == plan_disruption(snapshot)


@pytest.mark.parametrize(("form", "gzipped"), FORMS)
@pytest.mark.parametrize("seed", range(8))
def test_every_form_of_file_holds_the_same(seed, form, gzipped, tmp_path):
    snapshot = in_order(random_cluster(seed, size="large").snapshot)
    content = snapshot_bytes(snapshot, form, gzipped=gzipped)
    assert content == snapshot_bytes(read_snapshot_file(content), form, gzipped=gzipped)
    path = tmp_path / "snapshot"
    path.write_bytes(content)
    assert read_snapshot_file(path) == snapshot


def small(**changes):
    pods = (pod("web-1", on="node-1"), pod("web-2", on="node-1"))
    machine = {"spec": {"providerID": "kwok://node-1"}}
    made = claim("claim-1", status={"providerID": "kwok://node-1"})
    snapshot = Snapshot(
        at=NOON,
        nodes=(ClusterNode(node("node-1", **machine), made, pods),),
        unbound_pods=(pod("web-3"),),
        nodepools={"default": nodepool(), "other": nodepool("other")},
        daemon_sets=(),
        catalogs={"default": TYPES, "other": TYPES},
        pdbs=(build(POD_DISRUPTION_BUDGET, PDB),),
        nominated=frozenset({"node-1"}),
    )
    return replace(snapshot, **changes)


def test_budgets_of_pods_and_nominations_are_kept():
    snapshot = load_snapshot(dump_snapshot(small()))
    assert snapshot.pdbs == small().pdbs
    assert snapshot.nominated == {"node-1"}


def test_what_could_not_be_read_is_kept_in_its_order():
    odd = tuple(
        UnreadableEntry(kind="Pod", namespace="shop", name=name, problem="spec: bad", node="b") for name in "ba"
    )
    assert load_snapshot(dump_snapshot(small(unreadable=odd))).unreadable == odd
    assert "unreadable" not in dump_snapshot(small())


def test_what_an_older_snapshot_could_not_read_may_concern_any_node():
    (odd,) = load_snapshot({**dump_snapshot(small()), "unreadable": ["Pod shop/a (spec: bad)"]}).unreadable
    assert odd.everywhere
    assert "Pod shop/a" in str(odd)


def test_a_shared_catalogue_is_written_once_and_shared_again():
    document = dump_snapshot(small())
    assert [each["nodePools"] for each in document["catalogs"]] == [["default", "other"]]
    catalogs = load_snapshot(document).catalogs
    assert catalogs["default"] is catalogs["other"]


def test_pools_with_other_instance_types_have_a_separate_catalog():
    document = dump_snapshot(small(catalogs={"default": TYPES, "other": TYPES[:1]}))
    assert [each["nodePools"] for each in document["catalogs"]] == [["default"], ["other"]]


def test_the_order_in_which_things_were_found_does_not_show():
    backwards = small(
        unbound_pods=(pod("b"), pod("a")),
        nodepools=dict(reversed(small().nodepools.items())),
        namespaces={"b": {"y": "1", "x": "2"}, "a": {}},
    )
    forwards = small(unbound_pods=(pod("a"), pod("b")), namespaces={"a": {}, "b": {"x": "2", "y": "1"}})
    assert snapshot_bytes(backwards) == snapshot_bytes(forwards)


def test_only_annotations_that_decisions_read_are_written():
    marks = {
        "kubectl.kubernetes.io/last-applied-configuration": '{"env": "hunter2"}',
        "kapp.k14s.io/original": "hunter2",
        "note": "hunter2",
        "karpenter.sh/do-not-disrupt": "true",
        "controller.kubernetes.io/pod-deletion-cost": "5",
    }
    template = {"metadata": {"annotations": marks}}
    daemons = build(DAEMON_SET, {"metadata": {"name": "agent", "annotations": marks}, "spec": {"template": template}})
    snapshot = small(unbound_pods=(pod("web-3", metadata={"annotations": marks}),), daemon_sets=(daemons,))
    assert b"hunter2" not in snapshot_bytes(snapshot)
    read = load_snapshot(dump_snapshot(snapshot))
    kept = {"karpenter.sh/do-not-disrupt": "true", "controller.kubernetes.io/pod-deletion-cost": "5"}
    assert read.unbound_pods[0].metadata.annotations == kept
    assert read.daemon_sets[0].spec.template.metadata.annotations == kept


def test_annotations_of_a_nodepools_template_stay_because_drift_looks_at_them():
    pool = nodepool(template_metadata={"annotations": {"example.com/owner": "team"}})
    read = load_snapshot(dump_snapshot(small(nodepools={"default": pool}))).nodepools["default"]
    assert read == pool


def test_environment_is_not_even_modelled():
    container = {"name": "main", "env": [{"name": "TOKEN", "value": "hunter2"}], "args": ["hunter2"]}
    secretive = build(POD, {"metadata": {"name": "web"}, "spec": {"containers": [container]}})
    assert b"hunter2" not in snapshot_bytes(small(unbound_pods=(secretive,)))


def test_a_node_with_two_claims_has_none_and_a_claim_without_a_node_is_separate():
    machine = node(spec={"providerID": "kwok://one"})
    rivals = [claim(name, status={"providerID": "kwok://one"}) for name in ("first", "second")]
    lone = claim("third")
    joined = build_snapshot(ClusterObjects({NODE: [machine], NODE_CLAIM: [*rivals, lone]}), NOON, {}).nodes
    assert [(each.node, each.claim) for each in joined] == [(machine, None), (None, lone)]


def faults_of(document):
    with pytest.raises(SnapshotInvalid) as caught:
        load_snapshot(document)
    return {fault.path: fault for fault in caught.value.faults}


def test_all_faults_are_reported_at_once_with_path_and_remedy():
    document = dump_snapshot(small())
    pods = [each for each in document["objects"] if each["kind"] == "Pod"]
    pods[0]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "one"
    pods[1]["spec"]["priority"] = "high"
    document["objects"] += [pods[2], {"apiVersion": "v1", "kind": "Secret"}, 7, {"apiVersion": "v1", "kind": "Pod"}]
    document["catalogs"][0]["instanceTypes"][0]["offerings"][0]["price"] = "cheap"
    document["catalogs"].append({"nodePools": ["default"], "instanceTypes": []})
    document["metadata"] = {"at": "noon"}
    document["nominated"] = "node-1"
    document["unreadable"] = [7]
    document["object"] = []
    faults = faults_of(document)
    first, last = document["objects"].index(pods[0]), len(document["objects"]) - 1
    assert list(faults) == [
        "object",
        "metadata.at",
        f"objects[{first}].spec.containers[0].resources.requests[...]",
        f"objects[{first + 1}].spec.priority",
        f"objects[{last - 3}]",
        f"objects[{last - 2}]",
        f"objects[{last - 1}]",
        f"objects[{last}].metadata.name",
        "catalogs[0].instanceTypes[0].offerings[0].price",
        "catalogs[1].nodePools",
        "nominated",
        "unreadable",
    ]
    assert all(fault.remedy for fault in faults.values())
    assert "Pod default/web-2" in faults[f"objects[{first + 1}].spec.priority"].problem


@pytest.mark.parametrize(
    ("change", "path", "words"),
    [
        ({"kind": "NodePool"}, "kind", "dovetail snapshot -o FILE"),
        ({"kind": None}, "kind", "dovetail snapshot -o FILE"),
        ({"apiVersion": "dovetail.sh/v9"}, "apiVersion", "this version reads dovetail.sh/v1alpha1"),
    ],
)
def test_what_is_no_snapshot_is_one_fault(change, path, words):
    faults = faults_of({**dump_snapshot(small()), "objects": 7, **change})
    assert list(faults) == [path]
    assert words in str(faults[path])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (snapshot_bytes(small())[:-100], "is not JSON"),
        (snapshot_bytes(small(), gzipped=True)[:-100], "cannot be decompressed with gzip"),
        (b"\x1f\x8b" + b"nonsense" * 9, "cannot be decompressed with gzip"),
        (b"kind: Snapshot\n  at: [", "is not YAML on line 2"),
        (b"kind: \x80\x81", "is not text in UTF-8, from byte 6 on"),
        (b"some words", "is not a mapping"),
        (b"[1, 2]", "is not a mapping"),
        (json.dumps([[]]).encode() * 2, "is not JSON"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_clear_fault(content, words):
    with pytest.raises(SnapshotInvalid, match=words) as caught:
        read_snapshot_file(content)
    assert len(caught.value.faults) == 1
    assert caught.value.faults[0].remedy


def test_a_missing_file_is_a_fault_too(tmp_path):
    with pytest.raises(SnapshotInvalid, match=r"nowhere\.json: cannot be read: No such file"):
        read_snapshot_file(tmp_path / "nowhere.json")


def test_an_unquoted_instant_means_what_it_means_to_kubectl():
    text = b"apiVersion: dovetail.sh/v1alpha1\nkind: Snapshot\nmetadata: {at: 2026-01-05T12:00:00Z}\nobjects: []\n"
    assert read_snapshot_file(text).at == NOON
    assert read_snapshot_file(gzip.compress(text)).at == NOON


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.json", ("json", False)),
        ("a.yml", ("yaml", False)),
        ("b/a.yaml.gz", ("yaml", True)),
        ("A.JSON", ("json", False)),
    ],
)
def test_the_file_name_implies_the_format(name, form):
    assert file_form(name) == form


@pytest.mark.parametrize("name", ["snapshot", "a.txt", "a.gz"])
def test_a_file_name_without_a_format_is_rejected(name):
    with pytest.raises(ValueError, match=r"ends in \.json"):
        file_form(name)
