"""A thousand spot nodes are wanted back at once: all of it is handled within the two minutes of the warning."""

import asyncio
import sys
from collections import Counter

from dovetail.model.kube_object import Key
from dovetail.model.labels import TERMINATION_FINALIZER
from dovetail.ports.cluster import Patch
from dovetail.sim.kubernetes.kinds import NODE, NODE_CLAIM, POD
from dovetail.sim.world import WorldOptions
from stories import live, node_class, node_pool

NODES = 1000
NOTICE = 120.0
CALLS_PER_NODE = 22
"""For the old node's end and the new node's start together, one pod a node, each of these once.

The end, 11: the claim's deadline and its delete, the warning's label off, the node's delete, its taints, Draining, one
eviction, the pods listed, Drained with InstanceTerminating, two finalizers. The start, 10: the claim, its labels,
Launched, the registration, Registered, a nomination, the closing taint off, a pod event, the label, Initialized. Some
pods first land on a leaving node.
"""
OF_THE_PROVIDER = {
    ("launch", "Instance"),
    ("terminate", "Instance"),
    ("get", "Instance"),
    ("list", "Instance"),
    ("get", "KWOKNodeClass"),
}
TYPE = "c-1x-amd64-linux"
CPU = [{"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["1"]}]
POOL = node_pool(template={"expireAfter": "Never", "requirements": CPU}, disruption={"consolidateAfter": "Never"})
AMOUNTS = {"cpu": "1", "memory": "2Gi", "pods": "16", "ephemeral-storage": "20Gi"}
CONTAINER = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}
_SINCE = {"status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
CONDITIONS = [{"type": kind, **_SINCE} for kind in ("Launched", "Registered", "Initialized", "Ready")]


class Calls:
    """Counts the calls of the controllers, once it is told to."""

    def __init__(self):
        self.made = Counter()
        self.counting = False

    async def before(self, call):
        if self.counting:
            self.made[call.operation, call.kind] += 1

    async def after(self, call):
        pass


def labels(number):
    return {
        "karpenter.sh/nodepool": "default",
        "karpenter.kwok.sh/kwoknodeclass": "default",
        "karpenter.sh/capacity-type": "spot",
        "node.kubernetes.io/instance-type": TYPE,
        "topology.kubernetes.io/zone": f"test-zone-{'abcd'[number % 4]}",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "kwok.x-k8s.io/node": "fake",
    }


def workload():
    """A ReplicaSet that has all its pods already: those on the old nodes."""
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [CONTAINER]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": NODES, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }


def put(world, number, owner):
    """One settled node with its claim and a pod on it."""
    name, provider_id = f"old-{number:04}", f"kwok://old-{number:04}"
    held = {"labels": labels(number), "finalizers": [TERMINATION_FINALIZER]}
    ref = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    claim = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": name, **held}}
    world.apply({**claim, "spec": {"nodeClassRef": ref, "requirements": [], "resources": {}}})
    amounts = {"capacity": AMOUNTS, "allocatable": AMOUNTS}
    settled = {"nodeName": name, "providerID": provider_id, "conditions": CONDITIONS, **amounts}
    world.api.patch(NODE_CLAIM, Key("", name), Patch({"status": settled}, subresource="status"))
    marks = {**labels(number), "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, **held, "labels": marks}}
    world.apply({**node, "spec": {"providerID": provider_id}})
    running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], **amounts}
    world.api.patch(NODE, Key("", name), Patch({"status": running}, subresource="status"))
    owned = {"labels": {"app": "web"}, "ownerReferences": [owner]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"pod-{number:04}", "namespace": "default", **owned}}
    world.apply({**pod, "spec": {"nodeName": name, "containers": [CONTAINER]}})
    started = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    world.api.patch(POD, Key("default", f"pod-{number:04}"), Patch({"status": started}, subresource="status"))


class Watch:
    """When the last of the old nodes was tainted and gone, and the last of the new claims made and ready."""

    def __init__(self, world):
        self.at = {}
        self._tainted = set()
        self._gone = set()
        self._made = set()
        self._ready = set()
        self._clock = world.clock
        self._began = world.clock.now()
        world.store.listen((NODE, NODE_CLAIM), self._hear)

    def _hear(self, step):
        name, node = step.after.key.name, step.after.resource == NODE
        if name.startswith("old-"):
            taints = step.after.plain["spec"].get("taints") or ()
            if node and any(taint["key"] == "karpenter.sh/disrupted" for taint in taints):
                self._note("tainted", self._tainted, name)
            if step.type == "DELETED":
                self._note("gone", self._gone, f"{node}/{name}")
        elif not node:
            self._note("replaced", self._made, name)
            conditions = (step.after.plain.get("status") or {}).get("conditions") or ()
            if any(each["type"] == "Ready" and each["status"] == "True" for each in conditions):
                self._note("ready", self._ready, name)

    def _note(self, what, names, name):
        if name not in names:
            names.add(name)
            self.at[what] = len(names), round((self._clock.now() - self._began).total_seconds(), 1)


def test_a_thousand_nodes_are_handled_inside_the_two_minutes_of_the_warning(capsys):
    calls = Calls()

    async def story(life):
        world = life.world
        uid = world.apply(workload()).uid
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": uid, "controller": True}
        for number in range(NODES):
            put(world, number, owner)
        await asyncio.sleep(5)
        assert len(life.pods) == NODES
        watch = Watch(world)
        calls.counting = True
        for number in range(NODES):
            world.instance_failures.reclaim_spot(f"old-{number:04}", NOTICE)
        await asyncio.sleep(NOTICE - 1)
        assert life.running(NODES)
        assert life.parts.recorder.counts.dropped == 0
        return watch.at

    at = live(story, node_class(), POOL, options=WorldOptions(), interference=calls)
    cloud = sum(calls.made[each] for each in OF_THE_PROVIDER) / NODES
    events = (calls.made["create", "Event"] + calls.made["patch", "Event"]) / NODES
    own = sum(calls.made.values()) / NODES - cloud - events
    with capsys.disabled():
        told = ", ".join(f"{what} by {seconds} s" for what, (_, seconds) in at.items())
        sys.stdout.write(f"\n{NODES} nodes interrupted at once: {told}; {own:.1f} API calls a node, ")
        sys.stdout.write(f"{cloud:.1f} of the provider, {events:.1f} events\n")
    assert at["tainted"][0] == NODES
    assert at["tainted"][1] < 5
    assert at["replaced"][0] == NODES
    assert at["replaced"][1] < 15
    assert at["ready"][0] == NODES
    assert at["gone"] == (2 * NODES, at["gone"][1])  # every node and every claim
    assert own < CALLS_PER_NODE, calls.made
    assert cloud < 2.5, calls.made  # an instance is launched, and one is terminated
