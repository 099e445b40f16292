"""Where the stand-in scheduler binds pods, and what it says when it cannot."""

import asyncio

from dovetail.model.kinds import POD
from dovetail.model.kube_object import Key
from dovetail.ports.cluster import Patch
from dovetail.sim.kubernetes.kinds import NODE
from dovetail.sim.kubernetes.kinds import POD as POD_RESOURCE
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import World, WorldOptions
from sim.day import node

ZONE = "topology.kubernetes.io/zone"


async def arrive(world, nodes, pods):
    """Pods come one after the other, once the nodes are ready."""
    for each in nodes:
        world.apply(each)
    await asyncio.sleep(15)
    for each in pods:
        world.apply(each)
        await asyncio.sleep(0.5)


def bindings(nodes, pods):
    """Node, or message, of each pod once everything has settled."""

    async def main():
        async with World(WorldOptions(seed=5)) as world:
            await arrive(world, nodes, pods)
            await asyncio.sleep(5)
            return [place(await world.get(POD, Key("default", each["metadata"]["name"]))) for each in pods]

    return run(main(), limit=3600)


def place(pod):
    if pod.node_name:
        return pod.node_name
    return next(each.message for each in pod.status.conditions if each.type == "PodScheduled")


def pod(name, cpu="1", labels=None, ports=(), **spec):
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}, "ports": list(ports)}
    metadata = {"name": name, "namespace": "default", "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


def labelled(name, **labels):
    plain = node(name)
    plain["metadata"]["labels"].update({key.replace("zone", ZONE): value for key, value in labels.items()})
    return plain


def test_the_emptiest_node_wins_and_ties_go_by_name():
    assert bindings([node("b"), node("a")], [pod("1"), pod("2"), pod("3", cpu="2"), pod("4")]) == ["a", "b", "a", "b"]


def avoided(name, *keys):
    plain = node(name)
    plain["spec"] = {"taints": [{"key": key, "effect": "PreferNoSchedule"} for key in keys]}
    return plain


def test_a_prefer_no_schedule_taint_weighs_more_than_room():
    nodes = [avoided("a", "leaving"), avoided("b", "leaving", "slow"), node("c")]
    pods = [pod("1", cpu="3"), pod("2"), pod("3"), pod("4", cpu="3"), pod("5")]
    assert bindings(nodes, pods) == ["c", "c", "a", "a", "b"]


def test_a_tolerated_prefer_no_schedule_taint_does_not_count():
    tolerant = {"tolerations": [{"key": "leaving", "operator": "Exists"}]}
    assert bindings([avoided("a", "leaving"), node("b")], [pod("1"), pod("2", **tolerant)]) == ["b", "a"]


def test_a_pod_that_is_too_large_says_what_is_short():
    (message,) = bindings([node("a"), node("b")], [pod("big", cpu="5")])
    assert message == "0/2 nodes are available: 2 Insufficient cpu."


def test_without_nodes_the_message_says_so():
    assert bindings([], [pod("web")]) == ["no nodes available to schedule pods"]


def test_cordons_taints_and_selectors_have_different_messages():
    cordoned, tainted, other = node("cordoned"), node("tainted"), node("other")
    cordoned["spec"] = {"unschedulable": True}
    tainted["spec"] = {"taints": [{"key": "team", "value": "red", "effect": "NoSchedule"}]}
    (message,) = bindings([cordoned, tainted, other], [pod("web", nodeSelector={"disk": "ssd"})])
    assert message == (
        "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, "
        "1 node(s) had untolerated taint {team: red}, 1 node(s) were unschedulable."
    )


def test_one_of_several_affinity_terms_is_enough():
    terms = [
        {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]},
        {"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["8"]}]},
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    nodes = [labelled("few", cores="8"), labelled("many", cores="16")]
    assert bindings(nodes, [pod("web", affinity={"nodeAffinity": required})]) == ["many"]


def test_a_host_port_is_taken_once_a_node():
    port = {"containerPort": 80, "hostPort": 80}
    first, second, third = bindings([node("a"), node("b")], [pod(name, ports=[port]) for name in "123"])
    assert (first, second) == ("a", "b")
    assert third == "0/2 nodes are available: 2 node(s) didn't have free ports for the requested pod ports."


def near(label, topology=ZONE):
    return {"topologyKey": topology, "labelSelector": {"matchLabels": {"app": label}}}


def required(kind, *terms):
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def test_affinity_needs_a_matching_pod_except_for_the_first_of_a_group():
    nodes = [labelled("a", zone="east"), labelled("b", zone="west"), labelled("c", zone="west")]
    together = {"labels": {"app": "web"}, "affinity": required("podAffinity", near("web"))}
    placed = bindings(
        nodes, [pod("1", **together), pod("2", **together), pod("x", affinity=required("podAffinity", near("no")))]
    )
    assert placed[:2] == ["a", "a"]
    assert placed[2] == "0/3 nodes are available: 3 node(s) didn't match pod affinity rules."


def test_a_pod_with_affinity_is_bound_once_its_peer_is_bound():
    nodes = [labelled("a", zone="east"), labelled("b", zone="west")]
    follower = pod("follower", affinity=required("podAffinity", near("web")))
    leader = pod("leader", labels={"app": "web"}, nodeSelector={ZONE: "west"})
    assert bindings(nodes, [follower, leader]) == ["b", "b"]


def test_anti_affinity_of_bound_pods_is_respected():
    nodes = [labelled("a", zone="east"), labelled("b", zone="east")]
    shy = pod("shy", affinity=required("podAntiAffinity", near("web")))
    placed = bindings(nodes, [shy, pod("web", labels={"app": "web"})])
    assert placed[1] == "0/2 nodes are available: 2 node(s) didn't satisfy existing pods anti-affinity rules."


def test_spread_respects_max_skew_and_needs_the_label():
    nodes = [labelled("a", zone="east"), labelled("b", zone="west"), node("nowhere")]
    spread = {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    spread["labelSelector"] = {"matchLabels": {"app": "web"}}
    pods = [pod(name, "100m", {"app": "web"}, topologySpreadConstraints=[spread]) for name in "1234"]
    assert sorted(bindings(nodes, pods)) == ["a", "a", "b", "b"]


def test_too_few_domains_count_as_empty_ones():
    spread = {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "minDomains": 2}
    spread["labelSelector"] = {"matchLabels": {"app": "web"}}
    pods = [pod(name, "100m", {"app": "web"}, topologySpreadConstraints=[spread]) for name in "12"]
    first, second = bindings([labelled("a", zone="east")], pods)
    assert first == "a"
    assert second == "0/1 nodes are available: 1 node(s) didn't match pod topology spread constraints."


def test_a_deleted_node_removes_its_domain_and_pending_pods_are_retried():
    spread = {
        "topologyKey": "kubernetes.io/hostname",
        "maxSkew": 1,
        "labelSelector": {"matchLabels": {"app": "web"}},
        "whenUnsatisfiable": "DoNotSchedule",
    }
    closed = node("b")
    closed["spec"] = {"taints": [{"key": "going", "effect": "NoSchedule"}]}

    async def main():
        async with World(WorldOptions(seed=5)) as world:
            for each in (node("a"), closed):
                world.apply(each)
            await asyncio.sleep(15)
            for name in ("1", "2"):
                world.apply(pod(name, labels={"app": "web"}, topologySpreadConstraints=[spread]))
                await asyncio.sleep(1)
            before = place(await world.get(POD, Key("default", "2")))
            world.api.delete(NODE, Key("", "b"))
            await asyncio.sleep(5)
            return before, place(await world.get(POD, Key("default", "2")))

    before, after = run(main(), limit=3600)
    assert "didn't match pod topology spread constraints" in before
    assert after == "a"


def placed_after(nodes, pods, change):
    """Where the last of the pods is, before and after the change, and how often the scheduler wrote on it."""

    async def main():
        async with World(WorldOptions(seed=5)) as world:
            await arrive(world, nodes, pods)
            key = Key("default", pods[-1]["metadata"]["name"])
            before = place(await world.get(POD, key))
            change(world)
            await asyncio.sleep(45)
            writes = sum(entry.key == key and entry.summary == "Pending -" for entry in world.log) - 1
            return before, place(await world.get(POD, key)), writes

    return run(main(), limit=3600)


def test_a_node_that_refuses_a_pod_causes_no_retry():
    full = "0/1 nodes are available: 1 Insufficient cpu."

    def grow(world):
        world.apply({**node("b"), "spec": {"taints": [{"key": "team", "effect": "NoSchedule"}]}})

    assert placed_after([node("a")], [pod("big", "3"), pod("web", "2")], grow) == (full, full, 1)


def test_pending_pods_are_retried_once_a_node_that_fits_is_ready():
    full = "0/1 nodes are available: 1 Insufficient cpu."
    pods = [pod("big", "3"), pod("web", "2")]
    assert placed_after([node("a")], pods, lambda world: world.apply(node("b"))) == (full, "b", 1)


def test_a_deleted_pod_frees_its_zone_for_pods_it_repelled():
    nodes = [labelled("a", zone="east"), labelled("b", zone="east")]
    shy = pod("shy", "4", affinity=required("podAntiAffinity", near("web")))
    before, after, _ = placed_after(
        nodes,
        [shy, pod("web", "1", {"app": "web"}, nodeSelector={"kubernetes.io/hostname": "b"})],
        lambda world: world.api.delete(POD_RESOURCE, Key("default", "shy")),
    )
    assert "anti-affinity" in before
    assert after == "b"


def test_a_deleted_pod_frees_its_zone_for_pods_that_avoided_it():
    nodes = [labelled("a", zone="east"), labelled("b", zone="east")]
    shy = pod("shy", nodeSelector={"kubernetes.io/hostname": "b"}, affinity=required("podAntiAffinity", near("web")))
    before, after, _ = placed_after(
        nodes,
        [pod("web", "4", {"app": "web"}), shy],
        lambda world: world.api.delete(POD_RESOURCE, Key("default", "web")),
    )
    assert "anti-affinity" in before
    assert after == "b"


def test_a_pending_pod_with_a_new_toleration_is_retried_at_once():
    closed = {**node("a"), "spec": {"taints": [{"key": "team", "effect": "NoSchedule"}]}}
    tolerations = [{"key": "team", "operator": "Exists"}]

    def tolerate(world):
        world.api.patch(POD_RESOURCE, Key("default", "web"), Patch({"spec": {"tolerations": tolerations}}))

    before, after, _ = placed_after([closed], [pod("web")], tolerate)
    assert "untolerated taint" in before
    assert after == "a"
