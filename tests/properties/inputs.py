"""Everything a decision reads, and random changes to it, one kind of input at a time.

`Inputs` holds the API objects by kind, the catalog of each NodePool, the feature gates, the back-off of failed commands
and the time. The changes are in `workload_changes`, `policy_changes` and `setting_changes`. A change always makes a new
object: no value is edited in place.
"""

from collections import defaultdict
from dataclasses import replace
from datetime import timedelta
from random import Random

from msgspec import structs

from dovetail.model.cluster_objects import (
    Namespace,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from dovetail.model.duration import Delay, Duration
from dovetail.model.kinds import (
    CSI_NODE,
    DAEMON_SET,
    NAMESPACE,
    NODE,
    NODE_CLAIM,
    NODE_POOL,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_DISRUPTION_BUDGET,
    STORAGE_CLASS,
)
from dovetail.model.kube_object import Condition, LabelSelector, ObjectMeta
from dovetail.model.labels import HOSTNAME
from dovetail.model.nodeclaim import DRIFTED, INITIALIZED, LAUNCHED, REGISTERED
from dovetail.model.nodepool import Disruption
from dovetail.model.percentage import Percentage
from dovetail.model.snapshot import Snapshot
from dovetail.model.storage import CSINode, CSINodeAllocatable, CSINodeDriver, CSINodeSpec
from dovetail.ports.cluster import WatchEvent
from dovetail.settings import DecisionOptions
from reference.chance.catalog import some_pools, some_types
from reference.chance.dice import APPS, KNOWN, NAMESPACES, throw
from reference.chance.disks import CLAIMS, some_storage
from reference.chance.nodes import some_nodes
from reference.chance.workloads import NOON, bound, daemon_pod, light, replica, some_daemon_sets, some_workload

POLICIES = ("WhenEmptyOrUnderutilized", "WhenEmptyOrUnderutilized", "WhenEmpty", "Balanced")
SPANS = ("0s", "0s", "0s", "1m", "1h", "Never")
CHANGES = {}


def change(kind):
    """Registers the change of one kind of input."""

    def register(make):
        CHANGES[kind] = make
        return make

    return register


def edited(value, path, new):
    """A copy of a value in which one field, named by its path, has another value."""
    name, _, rest = path.partition(".")
    return structs.replace(value, **{name: edited(getattr(value, name), rest, new) if rest else new})


def budget(name, namespace, selector, allowed):
    """A PodDisruptionBudget over the pods with these labels."""
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=name, namespace=namespace),
        spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels=selector)),
        status=PodDisruptionBudgetStatus(disruptions_allowed=allowed, current_healthy=1, expected_pods=2),
    )


def _cluster(seed):
    """A random cluster in which most nodes are managed and ready, so that most inputs matter to some decision."""
    dice = throw(seed, "large")
    themes = (
        (dice.themes - {"arrivals", "departures", "minvalues"}) | {"daemons"} | ({"volumes"} if seed % 2 else set())
    )
    dice = replace(dice, themes=themes if seed % 4 else dice.themes)
    types = some_types(dice)
    pools = some_pools(dice, types)
    workloads = [some_workload(dice, CLAIMS) for _ in range(3)]
    daemon_sets = some_daemon_sets(dice)
    running = [each for each in daemon_sets if dice.maybe(0.4)]  # without a pod, the template counts
    nodes = [_inhabited(dice, node, workloads, running) for node in some_nodes(dice, pools, types)]
    waiting = [replica(dice, dice.pick(workloads)) for _ in range(3)] if seed % 4 == 0 else []
    return Snapshot(
        at=NOON,
        nodes=tuple(nodes),
        unbound_pods=tuple(waiting),
        nodepools={pool.name: pool for pool in pools},
        daemon_sets=daemon_sets,
        catalogs={pool.name: types for pool in pools},
        well_known=KNOWN,
        storage=some_storage(dice, [node.name for node in nodes if HOSTNAME in node.labels]),
        namespaces=NAMESPACES,
    )


def _inhabited(dice, node, workloads, daemon_sets):
    """The node with a few pods and daemons on it."""
    if node.node is None:
        return node
    name = node.node.name
    pods = [bound(replica(dice, light(dice.pick(workloads))), name) for _ in range(dice.pick((0, 1, 1, 2, 3)))]
    daemons = [daemon_pod(dice, each, name) for each in daemon_sets if dice.maybe(0.3)]
    return replace(node, pods=(*pods, *daemons))


class Inputs:
    """The inputs as they are now. `events` are the changes of API objects since it was last emptied."""

    def __init__(self, seed):
        self.rng = Random(seed)  # noqa: S311 - reproducible, not secret
        self.version = 0
        self.objects = defaultdict(dict)  # by the name of the kind, then by key
        self.unreadable = defaultdict(dict)
        self.events = []
        self.kinds = {}
        self.births = []  # every object there was, as it was when it was made
        snapshot = _cluster(seed)
        self.at = snapshot.at
        self.well_known = snapshot.well_known
        self.catalogs = dict(snapshot.catalogs)
        self.full_catalogs = dict(snapshot.catalogs)
        self.catalogs = {pool: types[1:] if seed % 4 == 0 else types for pool, types in self.catalogs.items()}
        self.gates = DecisionOptions(spot_to_spot=seed % 2 == 0)
        self.backing_off = {}
        self.nominations = {}
        self._fill(snapshot)
        self.events.clear()

    def _fill(self, snapshot):
        for node in snapshot.nodes:
            if node.node is not None:
                self.put(NODE, node.node)
            if node.claim is not None:
                self.put(NODE_CLAIM, self._settled(node))
            for pod in node.pods:
                self.put(POD, pod)
        for pod in snapshot.unbound_pods:
            self.put(POD, pod)
        for pool in snapshot.nodepools.values():
            self.put(NODE_POOL, edited(pool, "spec.disruption", self.disruption()))
        for each in snapshot.daemon_sets:
            self.put(DAEMON_SET, each)
        for name, labels in snapshot.namespaces.items():
            self.put(NAMESPACE, Namespace(metadata=ObjectMeta(name=name, labels=labels)))
        self._fill_storage(snapshot.storage)
        for app in self.rng.sample(APPS, self.rng.randint(0, 2)):
            self.put(POD_DISRUPTION_BUDGET, budget(app, "default", {"app": app}, self.rng.choice((0, 1, 1))))

    def _fill_storage(self, storage):
        for each in storage.claims.values():
            self.put(PERSISTENT_VOLUME_CLAIM, each)
        for each in storage.volumes.values():
            self.put(PERSISTENT_VOLUME, each)
        for each in storage.classes.values():
            self.put(STORAGE_CLASS, each)
        for name, limits in storage.attach_limits.items():
            self.put(CSI_NODE, csi_node(name, limits))

    def _settled(self, node):
        """The NodeClaim, created a while ago."""
        draw = self.rng.choice
        at = self.at - timedelta(seconds=draw((20, 600, 90_000)))
        kinds = [LAUNCHED, REGISTERED, INITIALIZED, *([DRIFTED] if self.rng.random() < 0.1 else ())]
        known = tuple(
            Condition(type=kind, status="True", reason="Said", last_transition_time=at)
            for kind in (kinds if node.initialized else ())
        )
        claim = edited(node.claim, "metadata.creation_timestamp", at)
        claim = edited(claim, "status.conditions", known or claim.status.conditions)
        claim = edited(claim, "spec.expire_after", Delay.parse(draw(("Never", "48h"))))
        grace = Duration.parse("1h") if self.rng.random() < 0.2 else None
        return edited(claim, "spec.termination_grace_period", grace)

    def disruption(self):
        """A random disruption policy."""
        draw = self.rng.choice
        return Disruption(
            consolidation_policy=draw(POLICIES),
            consolidate_after=Delay.parse(draw(SPANS)),
            consolidation_grace_period=Delay.parse("30s") if self.rng.random() < 0.2 else None,
            budgets=(),
            expire_after=Delay.parse("2h") if self.rng.random() < 0.2 else None,
            min_savings=Percentage(self.version % 3 * 30),
        )

    def put(self, kind, value):
        """Create or replace an object; the API server gives it a new version."""
        self.version += 1
        metadata = structs.replace(
            value.metadata,
            resource_version=str(self.version),
            uid=value.metadata.uid or f"uid-{kind.name}-{value.name}",
        )
        value = structs.replace(value, metadata=metadata)
        self.unreadable[kind.name].pop(value.key, None)
        self.objects[kind.name][value.key] = value
        self.kinds[kind.name] = kind
        self.births.append((value, repr(value)))
        self.events.append((kind, WatchEvent("MODIFIED", str(self.version), value)))
        return value

    def drop(self, kind, value):
        """Delete an object."""
        self.version += 1
        del self.objects[kind.name][value.key]
        last = edited(value, "metadata.resource_version", str(self.version))
        self.events.append((kind, WatchEvent("DELETED", str(self.version), last)))

    def spoil(self, kind, unreadable):
        """An object turns into one that cannot be read."""
        self.version += 1
        metadata = structs.replace(unreadable.metadata, resource_version=str(self.version))
        unreadable = structs.replace(unreadable, metadata=metadata)
        self.objects[kind.name].pop(unreadable.key)
        self.unreadable[kind.name][unreadable.key] = unreadable
        self.events.append((kind, WatchEvent("MODIFIED", str(self.version), unreadable)))

    def all(self, kind):
        """The objects of a kind, by key."""
        return [value for _, value in sorted(self.objects[kind.name].items())]

    def any(self, kind, suits=lambda _: True):
        """One of the objects of a kind; None where there is none that suits."""
        found = [value for value in self.all(kind) if suits(value)]
        return self.rng.choice(found) if found else None

    def edit(self, kind, path, make, suits=lambda _: True):
        """Change one field of one object, if there is one; `make` gets the object."""
        value = self.any(kind, suits)
        if value is None:
            return False
        self.put(kind, edited(value, path, make(value)))
        return True

    def memory(self):
        """All inputs as they are, but for the time."""
        objects = {kind: dict(found) for kind, found in self.objects.items()}
        unreadable = {kind: dict(found) for kind, found in self.unreadable.items()}
        return objects, unreadable, dict(self.catalogs), self.gates, dict(self.backing_off)

    def restore(self, memory):
        """Take back what changed since; what is put back is written anew."""
        objects, unreadable, self.catalogs, self.gates, self.backing_off = memory
        for name, kind in list(self.kinds.items()):
            before, now = objects.get(name, {}), dict(self.objects[name])
            for key, value in before.items():
                if now.get(key) is not value:
                    self.put(kind, value)
            for key in now.keys() - before.keys():
                self.drop(kind, now[key])
            for key, bad in unreadable.get(name, {}).items():
                if key not in self.unreadable[name]:
                    self.put(kind, bad.partial)
                    self.spoil(kind, bad)

    def assert_nothing_was_edited_in_place(self):
        """Memos are keyed by identity, which is sound only while values never change."""
        for value, born in self.births:
            assert repr(value) == born, f"{value.key} was edited in place"


def csi_node(name, limits):
    """How many volumes of each driver a node can attach."""
    drivers = tuple(
        CSINodeDriver(name=driver, allocatable=CSINodeAllocatable(count=count)) for driver, count in limits.items()
    )
    return CSINode(metadata=ObjectMeta(name=name), spec=CSINodeSpec(drivers=drivers))


def renamed(value, name, **metadata):
    """The same object under another name."""
    return edited(value, "metadata", structs.replace(value.metadata, name=name, uid=f"uid-{name}", **metadata))


def twin_node(inputs, node, claim):
    """A node like another one, with a claim if that has one."""
    name = f"{node.name}-{inputs.version}"
    labels = {**node.metadata.labels, **({HOSTNAME: name} if HOSTNAME in node.metadata.labels else {})}
    provider_id = f"kwok://{name}" if node.spec.provider_id else ""
    inputs.put(NODE, edited(renamed(node, name, labels=labels), "spec.provider_id", provider_id))
    if claim is not None:
        status = structs.replace(claim.status, node_name=name, provider_id=provider_id)
        inputs.put(NODE_CLAIM, edited(renamed(claim, name), "status", status))


def claim_of(inputs, node):
    """The NodeClaim of a node, or None."""
    claims = inputs.objects[NODE_CLAIM.name].values()
    own = (each for each in claims if each.provider_id and each.provider_id == node.provider_id)
    return next(own, None)
