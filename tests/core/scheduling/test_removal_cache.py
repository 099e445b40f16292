"""A planner that remembers its last pass sees every kind of change: each test plans, changes one thing, plans again.

The expectations are written out. A second planner would not do as the judge: some of what is remembered is shared by
all planners of a process.
"""

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from acceptance.fleet import ON_DEMAND, cluster, free, running, shielded, worker
from builders import HUGE, LARGE, NOON, SMALL, build, daemon_set, instance_type, node
from dovetail.core.disruption.candidates import CandidateCache
from dovetail.core.disruption.planner import Planner
from dovetail.model.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD_DISRUPTION_BUDGET
from dovetail.model.kube_object import Key
from dovetail.model.labels import NODEPOOL
from dovetail.model.resources import Quantity
from dovetail.model.snapshot import ClusterNode
from dovetail.model.storage import Storage

NOTHING = []
REPLACED = [("a", {"m.small"})]
DELETED = [("a", set())]
TYPES = (SMALL, LARGE, HUGE)


def pool(*requirements, **disruption):
    template = {"requirements": [*ON_DEMAND["requirements"], *requirements]}
    return free(template=template, **disruption)


def moves(plan):
    """The nodes that go, each with the types that may replace it."""
    return [
        (each.name, {name for draft in command.replacements for name in draft.type_names})
        for command in plan.commands
        for each in command.candidates
    ]


def sees(before, expected_before, after, expected_after):
    """One planner plans both; the first plan makes sure that there is something to remember."""
    planner = Planner()
    assert moves(planner.plan(before)) == expected_before
    assert moves(planner.plan(after)) == expected_after


def web(on="a", cpu="1", **fields):
    return running("web", on, cpu, **fields)


def alone(*pods, **fields):
    """One node that could be smaller."""
    return cluster(worker("a", *(pods or (web(),))), **{"pools": [pool()], **fields})


ALONE = alone()


def unmanaged(name="b", *pods, **fields):
    """A node that Dovetail did not make: it takes pods and is never disrupted."""
    labels = {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", **fields.pop("labels", {})}
    return ClusterNode(node(name, labels=labels, **fields), None, pods)


def beside(other, *pods, **fields):
    """The same node beside another one."""
    return cluster(worker("a", *(pods or (web(),))), other, **{"pools": [pool()], **fields})


def test_the_price_of_a_replacement():
    dear = replace(ALONE, catalogs={"default": (instance_type("m.small", "2", "8Gi", 1.5), LARGE, HUGE)})
    sees(ALONE, REPLACED, dear, NOTHING)
    sees(dear, NOTHING, ALONE, REPLACED)


def test_the_price_of_the_node_itself():
    cheap = replace(ALONE, catalogs={"default": (SMALL, instance_type("m.large", "4", "16Gi", 0.4), HUGE)})
    sees(cheap, NOTHING, ALONE, REPLACED)
    sees(ALONE, REPLACED, cheap, NOTHING)


def test_the_price_that_decides_which_node_is_removed():
    """Both nodes could be deleted; one may, and the dearer one goes."""

    def at(price):
        nodes = (
            worker("a", web(cpu="100m")),
            worker("c", running("other", "c", "100m"), type_="m.other"),
            unmanaged("b", cpu="8"),
        )
        sold = (LARGE, instance_type("m.other", "4", "16Gi", price))
        return cluster(*nodes, pools=[pool(budgets=[{"nodes": "1"}])], types=sold)

    before = at(0.9)
    after = replace(before, catalogs={"default": (LARGE, instance_type("m.other", "4", "16Gi", 2.0))})
    sees(before, DELETED, after, [("c", set())])


def test_a_new_instance_type():
    without = replace(ALONE, catalogs={"default": (LARGE, HUGE)})
    sees(without, NOTHING, ALONE, REPLACED)


def test_the_requirements_of_a_nodepool():
    without_small = {"key": "node.kubernetes.io/instance-type", "operator": "NotIn", "values": ["m.small"]}
    changed = replace(ALONE, nodepools={"default": pool(without_small)})
    sees(ALONE, REPLACED, changed, NOTHING)
    sees(changed, NOTHING, ALONE, REPLACED)


def test_the_policy_of_a_nodepool():
    when_empty = replace(ALONE, nodepools={"default": pool(consolidationPolicy="WhenEmpty")})
    sees(ALONE, REPLACED, when_empty, NOTHING)
    sees(when_empty, NOTHING, ALONE, REPLACED)


def test_a_daemon_set():
    with_agent = replace(ALONE, daemon_sets=(daemon_set(cpu="1500m"),))
    sees(ALONE, REPLACED, with_agent, NOTHING)
    sees(with_agent, NOTHING, ALONE, REPLACED)


def test_a_daemon_set_that_is_deleted():
    """The catalog is its own: all planners share tables of instance types, and this one must be made here first."""
    without = replace(ALONE, catalogs={"default": (instance_type("m.small", "2", "8Gi", 0.3), LARGE, HUGE)})
    sees(replace(without, daemon_sets=(daemon_set(cpu="1500m"),)), NOTHING, without, REPLACED)


def test_the_labels_of_another_node():
    picky = web(spec={"nodeSelector": {"disk": "ssd"}})
    before, after = (beside(unmanaged(labels={"disk": disk}), picky) for disk in ("ssd", "hdd"))
    sees(before, DELETED, replace(before, nodes=(before.nodes[0], after.nodes[1])), NOTHING)


def test_a_label_that_nothing_read_when_it_changed():
    """A pod that selects it comes later."""
    before, relabeled = (beside(unmanaged(labels={"disk": disk})) for disk in ("hdd", "ssd"))
    picky = worker("a", web(spec={"nodeSelector": {"disk": "ssd"}}))
    planner = Planner()
    assert moves(planner.plan(before)) == DELETED
    assert moves(planner.plan(replace(before, nodes=(before.nodes[0], relabeled.nodes[1])))) == DELETED
    assert moves(planner.plan(replace(before, nodes=(picky, relabeled.nodes[1])))) == DELETED
    assert moves(planner.plan(replace(before, nodes=(picky, before.nodes[1])))) == NOTHING


def test_a_pod_that_names_one_of_two_equal_nodepools():
    """What one of them cannot hold for the pod, the other can."""
    other = msgspec.structs.replace(
        pool(), metadata=msgspec.structs.replace(pool().metadata, name="other", uid="other")
    )
    for name in ("default", "other"):
        named = web(spec={"nodeSelector": {NODEPOOL: name}})
        assert moves(Planner().plan(cluster(worker("a", named), pools=[pool(), other]))) == REPLACED


def test_the_label_that_names_the_type_of_a_node():
    """Nothing selects it, but it decides what the node costs."""
    sold = (SMALL, LARGE, instance_type("m.cheap", "4", "16Gi", 0.4))
    dear, cheap = (
        cluster(worker("a", web(), type_=type_), pools=[pool()], types=sold) for type_ in ("m.large", "m.cheap")
    )
    sees(dear, [("a", {"m.small", "m.cheap"})], cheap, NOTHING)
    sees(cheap, NOTHING, dear, [("a", {"m.small", "m.cheap"})])


def test_the_taints_of_another_node():
    before = beside(unmanaged())
    tainted = unmanaged(taints=[{"key": "dedicated", "effect": "NoSchedule"}])
    sees(before, DELETED, replace(before, nodes=(before.nodes[0], tainted)), REPLACED)


def test_the_resources_of_another_node():
    before = beside(unmanaged())
    host = before.nodes[1].node
    reserved = msgspec.structs.replace(host.status, allocatable={**host.status.allocatable, "cpu": Quantity.of("500m")})
    smaller = replace(before.nodes[1], node=msgspec.structs.replace(host, status=reserved))
    sees(before, DELETED, replace(before, nodes=(before.nodes[0], smaller)), REPLACED)


def test_the_pods_of_another_node():
    before = beside(unmanaged())
    full = replace(before.nodes[1], pods=(running("big", "b", "3500m"),))
    sees(before, DELETED, replace(before, nodes=(before.nodes[0], full)), REPLACED)


def test_the_pods_of_another_node_together_with_the_catalogue():
    """A simulation is made anew then, from what is known of the nodes."""
    before = beside(unmanaged())
    full = replace(before.nodes[1], pods=(running("big", "b", "3500m"),))
    sold = (instance_type("m.small", "2", "8Gi", 0.4), LARGE, HUGE)
    sees(before, DELETED, replace(before, nodes=(before.nodes[0], full), catalogs={"default": sold}), REPLACED)


def test_the_protection_of_a_pod():
    protected = replace(ALONE, nodes=(worker("a", shielded("web", "a")),))
    sees(ALONE, REPLACED, protected, NOTHING)
    sees(protected, NOTHING, ALONE, REPLACED)


def test_the_labels_of_a_namespace():
    """The pod stays away from pods of certain namespaces; one of them runs on the other node."""
    term = {
        "namespaceSelector": {"matchLabels": {"team": "x"}},
        "labelSelector": {},
        "topologyKey": "kubernetes.io/hostname",
    }
    shy = web(spec={"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
    neighbor = running("neighbor", "b", "100m", metadata={"namespace": "other"})
    labels = {"default": {}, "other": {"team": "y"}}
    before = replace(beside(unmanaged("b", neighbor), shy), namespaces=labels)
    sees(before, DELETED, replace(before, namespaces={**labels, "other": {"team": "x"}}), REPLACED)


def budget(app):
    return build(
        POD_DISRUPTION_BUDGET,
        {
            "metadata": {"name": "keep", "namespace": "default"},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": app}}},
            "status": {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 1, "expectedPods": 1},
        },
    )


def test_the_selector_of_a_pod_disruption_budget():
    labeled = web(metadata={"labels": {"app": "web"}})
    other = alone(labeled, pdbs=[budget("other")])
    guarded = replace(other, pdbs=(budget("web"),))
    sees(other, REPLACED, guarded, NOTHING)
    sees(guarded, NOTHING, other, REPLACED)


def test_the_facts_of_a_node_follow_the_selectors():
    """Asked directly: a plan reads the facts of the nodes it removes a second time."""
    other = alone(web(metadata={"labels": {"app": "web"}}), pdbs=[budget("other")])
    (on_a,) = other.nodes
    cache = CandidateCache()
    for app, selecting in (("other", []), ("web", [(0,)]), ("other", [])):
        cache.use_snapshot(replace(other, pdbs=(budget(app),)))
        assert [pdbs for _, pdbs in cache.facts(on_a).pods_with_pdbs] == selecting


def test_the_zone_of_a_volume():
    def storage(zone):
        claim = {"metadata": {"name": "data", "namespace": "default"}, "spec": {"volumeName": "disk"}}
        terms = [{"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]}]
        volume = {"metadata": {"name": "disk"}, "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}}
        return Storage(
            claims={Key("default", "data"): build(PERSISTENT_VOLUME_CLAIM, claim)},
            volumes={"disk": build(PERSISTENT_VOLUME, volume)},
        )

    keeping = web(spec={"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]})
    before = replace(beside(unmanaged(), keeping), storage=storage("zone-a"))
    sees(before, DELETED, replace(before, storage=storage("zone-b")), REPLACED)


@pytest.mark.parametrize("first", ["tolerant", "plain"])
def test_pods_that_differ_in_tolerations_alone(first):
    """Decoded objects share what is equal: the twins share everything but their tolerations."""
    plain = web(cpu="100m")
    tolerant = msgspec.structs.replace(
        plain,
        metadata=msgspec.structs.replace(plain.metadata, name="tolerant", uid="tolerant"),
        spec=msgspec.structs.replace(
            plain.spec, node_name="c", tolerations=build_tolerations([{"operator": "Exists", "effect": "NoSchedule"}])
        ),
    )
    tainted = unmanaged("b", taints=[{"key": "dedicated", "effect": "NoSchedule"}])
    here, there = worker("a", plain, type_="m.small"), worker("c", tolerant, type_="m.small")
    nodes = (there, here) if first == "tolerant" else (here, there)
    found = moves(Planner().plan(cluster(*nodes, tainted, pools=[pool(budgets=[{"nodes": "1"}])])))
    assert found in ([("a", set())], [("c", set())])
    alone_with_taint = cluster(here, tainted, pools=[pool()])
    planner = Planner()
    planner.plan(cluster(there, tainted, pools=[pool()]))
    assert moves(planner.plan(alone_with_taint)) == NOTHING


def build_tolerations(written):
    return running("any", "a", spec={"tolerations": written}).spec.tolerations


def test_the_end_of_a_delay():
    waiting = replace(ALONE, nodepools={"default": pool(consolidateAfter="25h")})
    sees(waiting, NOTHING, replace(waiting, at=NOON + timedelta(hours=2)), REPLACED)
