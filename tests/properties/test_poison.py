"""Law: whatever is wrong with one object, the others are provisioned and disrupted as if it were fine."""

import asyncio
import random

import pytest

from dovetail.manifest.codec import from_plain, to_plain
from dovetail.model import kinds
from dovetail.model.kube_object import Key, UnreadableObject
from dovetail.model.labels import NODEPOOL
from dovetail.ports.cluster import Patch
from dovetail.sim.kubernetes.kinds import resource_of
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import World, WorldOptions
from dovetail.wiring.embedded import admit
from poison import ABSENT, PoisonedLife, keeping_identity, replaced, some_mutation
from stories import ACTING, FREELY, ON_DEMAND, deployment, node_class, node_pool

TARGETS = (
    kinds.POD,
    kinds.NODE,
    kinds.NODE_CLAIM,
    kinds.NODE_POOL,
    kinds.POD_DISRUPTION_BUDGET,
    kinds.DAEMON_SET,
    kinds.NAMESPACE,
    kinds.PERSISTENT_VOLUME_CLAIM,
    kinds.PERSISTENT_VOLUME,
    kinds.STORAGE_CLASS,
    kinds.CSI_NODE,
    kinds.VOLUME_ATTACHMENT,
    kinds.KWOK_NODE_CLASS,
)
APP = {"matchLabels": {"app": "red"}, "matchExpressions": [{"key": "app", "operator": "Exists"}]}


def in_namespace(manifest, namespace):
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}


def a_pool(colour):
    template = {
        "requirements": ON_DEMAND,
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": colour},
    }
    return node_pool(colour, template=template, template_metadata={"labels": {"colour": colour}}, disruption=FREELY)


def red_workload(replicas):
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": APP, "namespaceSelector": {}}
    expression = {"key": "colour", "operator": "In", "values": ["red"]}
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [expression]}]
            }
        },
        "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]},
    }
    spread = {"maxSkew": 3, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
    return in_namespace(
        deployment(
            "red",
            replicas,
            affinity=affinity,
            topologySpreadConstraints=[{**spread, "labelSelector": APP}],
            volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        ),
        "red",
    )


def blue_workload(replicas):
    return in_namespace(deployment("blue", replicas, nodeSelector={NODEPOOL: "blue"}), "blue")


def named(api_version, kind, name, namespace="", **body):
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **body}


def cluster():
    container = {"name": "agent", "image": "agent", "resources": {"requests": {"cpu": "100m"}}}
    template = {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [container]}}
    zones = {"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": ["test-zone-a"]}]}
    return (
        named("v1", "Namespace", "red"),
        named("v1", "Namespace", "blue"),
        node_class("red"),
        node_class("blue"),
        a_pool("red"),
        a_pool("blue"),
        named(
            "apps/v1",
            "DaemonSet",
            "agent",
            "kube-system",
            spec={"selector": {"matchLabels": {"app": "agent"}}, "template": template},
        ),
        named("policy/v1", "PodDisruptionBudget", "red", "red", spec={"selector": APP, "maxUnavailable": 1}),
        named(
            "storage.k8s.io/v1",
            "StorageClass",
            "disk",
            provisioner="disk.example.com",
            volumeBindingMode="WaitForFirstConsumer",
            allowedTopologies=[zones],
        ),
        named(
            "v1",
            "PersistentVolume",
            "data",
            spec={
                "csi": {"driver": "disk.example.com", "volumeHandle": "data"},
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
            },
        ),
        named(
            "v1",
            "PersistentVolumeClaim",
            "data",
            "red",
            spec={
                "storageClassName": "disk",
                "volumeName": "data",
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        ),
        red_workload(2),
        blue_workload(3),
    )


def of_pool(life, name):
    return [node for node in life.nodes if node.metadata.labels.get(NODEPOOL) == name]


def running(life, namespace):
    return [
        pod
        for pod in life.pods
        if pod.metadata.namespace == namespace and pod.status.phase == "Running" and not pod.deleting
    ]


def target_of(life, kind):
    """An object of a kind that has to do with the red pool alone, or with nothing in particular."""
    (node, *_) = of_pool(life, "red")
    claim = next(each for each in life.claims if each.status.node_name == node.name)
    pod = next(each for each in running(life, "red") if each.node_name == node.name)
    keys = {
        kinds.POD: pod.key,
        kinds.NODE: node.key,
        kinds.NODE_CLAIM: claim.key,
        kinds.DAEMON_SET: Key("kube-system", "agent"),
        kinds.PERSISTENT_VOLUME_CLAIM: Key("red", "data"),
        kinds.PERSISTENT_VOLUME: Key("", "data"),
        kinds.STORAGE_CLASS: Key("", "disk"),
        kinds.CSI_NODE: node.key,
        kinds.VOLUME_ATTACHMENT: Key("", "attached"),
        kinds.POD_DISRUPTION_BUDGET: Key("red", "red"),
    }
    return keys.get(kind, Key("", "red"))


def extras(life):
    """What a cluster with disks has for a node of the red pool."""
    (node, *_) = of_pool(life, "red")
    driver = {"name": "disk.example.com", "nodeID": node.name, "allocatable": {"count": 5}}
    source = {"persistentVolumeName": "data"}
    return (
        named("storage.k8s.io/v1", "CSINode", node.name, spec={"drivers": [driver]}),
        named(
            "storage.k8s.io/v1",
            "VolumeAttachment",
            "attached",
            spec={"attacher": "disk.example.com", "nodeName": node.name, "source": source},
        ),
    )


async def settle(life):
    await life.until(lambda: len(running(life, "red")) == 2 and len(running(life, "blue")) == 3)
    await life.until(lambda: all(claim.has("Ready") for claim in life.claims))
    for manifest in extras(life):
        life.world.apply(manifest)


def touch(life, kind, key):
    """Something about the object changes, so that it is seen anew."""
    patch = Patch({"metadata": {"annotations": {"example.com/touched": "yes"}}}, "")
    life.world.api.patch(resource_of(kind), key, patch)


def stored(life, kind, key):
    return life.world.store.find(resource_of(kind), key)


async def goes_on(life):
    """Nodes come for blue pods, and go when they are not needed any more."""
    life.world.apply(blue_workload(9))
    await life.until(lambda: len(running(life, "blue")) == 9, within=600)
    life.world.apply(blue_workload(0))
    await life.until(lambda: not of_pool(life, "blue"), within=600)


def struck(kind, mutate, *, restart=False):
    """A story in which one object of a kind turns into poison; `mutate` makes it out of an example."""

    async def story(life):
        await settle(life)
        key = target_of(life, kind)
        example = to_plain(kind, stored(life, kind, key).value(kind))
        words, mutation = mutate(example)
        read = from_plain(kind, mutation(example))
        bad = isinstance(read, UnreadableObject)
        if kind is kinds.DAEMON_SET and not bad:
            return words, bad  # what its pods ask for may leave no node for anybody, and rightly so
        if bad and kind in (kinds.POD, kinds.VOLUME_ATTACHMENT) and not read.knows("spec.nodeName"):
            return words, bad  # it may be on any node, so every node is left alone
        life.poison.strike(kind, key, mutation)
        if restart:
            await life.stop()
            life.parts = life._parts()
            life.poison.strike(kind, key, mutation)
            life.start()
        touch(life, kind, key)
        await asyncio.sleep(15)
        try:
            await goes_on(life)
            if bad and kind not in (kinds.NODE_POOL, kinds.KWOK_NODE_CLASS):  # reported by others, or not watched
                told = [event for event in life.events("Unreadable") if event.involved_object.name == key.name]
                assert [event for event in told if event.type == "Warning" and event.involved_object.kind == kind.name]
        except AssertionError as error:
            raise AssertionError(f"{kind} with {words}: {error}") from error
        return words, bad

    async def main():
        async with World(WorldOptions(), validate=admit) as world:
            life = PoisonedLife(world, ACTING)
            for manifest in cluster():
                world.apply(manifest)
            life.start()
            try:
                return await story(life)
            finally:
                await life.stop()

    return run(main(), limit=24 * 3600.0)


AFFINITY = ("spec", "affinity")
SELECTOR = ("labelSelector", "matchExpressions", 0, "operator")
PREFERRED = ("preferredDuringSchedulingIgnoredDuringExecution", 0, "podAffinityTerm")
TERM = ("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms", 0, "matchExpressions", 0)
PILLS = {
    "claim: requirement operator": (kinds.NODE_CLAIM, ("spec", "requirements", 0, "operator"), "Near"),
    "claim: no creation timestamp": (kinds.NODE_CLAIM, ("metadata", "creationTimestamp"), ABSENT),
    "claim: bound of a requirement": (
        kinds.NODE_CLAIM,
        ("spec", "requirements", 0),
        {"key": "x", "operator": "Gt", "values": ["many"]},
    ),
    "claim: capacity": (kinds.NODE_CLAIM, ("status", "capacity", "cpu"), "four"),
    "claim: deadline": (
        kinds.NODE_CLAIM,
        ("metadata", "annotations"),
        {"karpenter.sh/nodeclaim-termination-timestamp": "0001-01-01T00:00:00+14:00", "dovetail.sh/command": "{{"},
    ),
    "budget: selector operator": (
        kinds.POD_DISRUPTION_BUDGET,
        ("spec", "selector", "matchExpressions", 0, "operator"),
        "Near",
    ),
    "pod: affinity selector": (kinds.POD, (*AFFINITY, "podAffinity", *PREFERRED, *SELECTOR), "Near"),
    "pod: node affinity operator": (kinds.POD, (*AFFINITY, "nodeAffinity", *TERM, "operator"), "Near"),
    "pod: spread selector": (kinds.POD, ("spec", "topologySpreadConstraints", 0, *SELECTOR), "Near"),
    "pod: spread of nothing": (kinds.POD, ("spec", "topologySpreadConstraints", 0, "maxSkew"), 0),
    "pod: requests": (kinds.POD, ("spec", "containers", 0, "resources", "requests", "cpu"), "about two"),
    "pod: endless grace": (kinds.POD, ("spec", "terminationGracePeriodSeconds"), (1 << 63) - 1),
    "pod: annotations": (
        kinds.POD,
        ("metadata", "annotations"),
        {"controller.kubernetes.io/pod-deletion-cost": "nan", "karpenter.sh/do-not-disrupt": "\x00"},
    ),
    "pool: requirement operator": (
        kinds.NODE_POOL,
        ("spec", "template", "spec", "requirements", 0, "operator"),
        "Near",
    ),
    "pool: weight": (kinds.NODE_POOL, ("spec", "weight"), "heavy"),
    "node: taints": (kinds.NODE, ("spec", "taints"), [{"effect": "Sideways"}]),
    "node: odd effect": (kinds.NODE, ("spec", "taints"), [{"key": "a", "effect": "Sideways"}]),
    "node: more than 64 bits": (kinds.NODE, ("status", "allocatable", "cpu"), "1e30"),
    "node: time without zone": (kinds.NODE, ("metadata", "creationTimestamp"), "2026-01-05T00:00:00"),
    "class: topologies": (kinds.STORAGE_CLASS, ("allowedTopologies", 0, "matchLabelExpressions"), [{"key": 5}]),
    "volume: affinity": (
        kinds.PERSISTENT_VOLUME,
        ("spec", "nodeAffinity"),
        {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Near"}]}]}},
    ),
    "daemons: requests": (
        kinds.DAEMON_SET,
        ("spec", "template", "spec", "containers", 0, "resources", "requests", "cpu"),
        "some",
    ),
}


@pytest.mark.parametrize("pill", PILLS)
def test_a_poison_pill_stops_nothing_else(pill):
    kind, path, junk = PILLS[pill]
    struck(kind, lambda _: (pill, keeping_identity(lambda plain: replaced(plain, path, junk))))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", TARGETS, ids=str)
def test_one_bad_object_stops_nothing_else(kind, seed):
    rng = random.Random(f"{kind}/{seed}")  # noqa: S311 - the same story every time
    struck(kind, lambda example: some_mutation(rng, example), restart=bool(seed % 2))
