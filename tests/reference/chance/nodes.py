"""Random nodes and NodeClaims, at every stage of their lives."""

from dataclasses import dataclass

import msgspec

from dovetail.model.catalog import InstanceType
from dovetail.model.command import RECORD_ANNOTATION, CommandRecord, write_record
from dovetail.model.kube_object import Condition, ObjectMeta
from dovetail.model.labels import (
    ARCH,
    CAPACITY_TYPE,
    HOSTNAME,
    INITIALIZED,
    INSTANCE_TYPE,
    NODEPOOL,
    OS,
    REGISTERED,
    ZONE,
)
from dovetail.model.node import Node, NodeSpec, NodeStatus
from dovetail.model.nodeclaim import ClaimResources, NodeClaim, NodeClaimSpec, NodeClaimStatus
from dovetail.model.nodepool import NodePool, NodeRequirement
from dovetail.model.reason import Reason
from dovetail.model.snapshot import ClusterNode
from dovetail.model.taints import Taint
from reference.chance.catalog import STARTUP_TAINT, TAINTS, amounts, requirement
from reference.chance.dice import CPUS, FAMILY, RACK, TEAM, ZONES, Dice
from reference.chance.workloads import NOON

NOT_READY = Taint("node.kubernetes.io/not-ready", effect="NoSchedule")
CORDON = Taint("node.kubernetes.io/unschedulable", effect="NoSchedule")


@dataclass(frozen=True)
class Machine:
    """What a node is made of."""

    name: str
    pool: NodePool
    type: InstanceType
    labels: dict[str, str]


def some_nodes(dice: Dice, pools: list[NodePool], types: tuple[InstanceType, ...]) -> list[ClusterNode]:
    count = dice.between(1, 5) if dice.size == "small" else dice.between(3, 9)
    kinds = ["ready"] * 4 + ["foreign"]
    if "arrivals" in dice.themes:
        kinds += ["starting", "launched", "unlaunched", "unlaunched"]
    if "departures" in dice.themes:
        kinds += ["cordoned", "claim deleted", "node deleted", "vanished", "disrupted"]
    return [_node(dice, dice.pick(kinds), _machine(dice, pools, types)) for _ in range(count)]


def _machine(dice: Dice, pools: list[NodePool], types: tuple[InstanceType, ...]) -> Machine:
    pool, bought = dice.pick(pools), dice.pick(types)
    offering = dice.pick(bought.offerings)
    labels = {
        NODEPOOL: pool.name,
        INSTANCE_TYPE: bought.name,
        ZONE: offering.zone,
        CAPACITY_TYPE: offering.capacity_type,
        **{key: bought.requirements.labels()[key] for key in (ARCH, OS, CPUS, FAMILY)},
        **pool.spec.template.metadata.labels,
    }
    if dice.maybe(0.4):
        labels[RACK] = dice.pick(("r1", "r2", "r3"))
    return Machine(dice.name("node"), pool, bought, labels)


def _node(dice: Dice, kind: str, machine: Machine) -> ClusterNode:
    match kind:
        case "foreign":
            return ClusterNode(_foreign(dice, machine), None)
        case "unlaunched":
            return ClusterNode(None, _unlaunched(dice, machine))
        case "launched" | "vanished":
            return ClusterNode(None, _claim(machine, "Launched" if kind == "launched" else "Registered"))
        case "starting":
            return ClusterNode(_starting(dice, machine), _claim(machine, "Registered"))
    node = _ready(dice, machine, cordoned=kind == "cordoned", deleting=kind == "node deleted")
    claim = _claim(machine, "Initialized", deleting=kind == "claim deleted")
    return ClusterNode(node, _disrupted(claim) if kind == "disrupted" else claim)


def _disrupted(claim: NodeClaim) -> NodeClaim:
    """The claim with the record of a command. Its node has no taint: a pod may tolerate it, or it may be late."""
    record = CommandRecord(id=claim.name, reason=Reason.DRIFTED, started_at=NOON, candidates=1, replacements=0)
    annotations = {RECORD_ANNOTATION: write_record(record)}
    return msgspec.structs.replace(claim, metadata=msgspec.structs.replace(claim.metadata, annotations=annotations))


def _ready(dice: Dice, machine: Machine, *, cordoned: bool = False, deleting: bool = False) -> Node:
    taints = list(machine.pool.spec.template.spec.taints) if dice.maybe(0.7) else []
    if dice.about("taints", 0.3):
        taints.append(dice.pick(TAINTS))
    if cordoned and dice.maybe(0.5):
        taints.append(CORDON)
    labels = {**machine.labels, HOSTNAME: machine.name, REGISTERED: "true", INITIALIZED: "true"}
    if dice.maybe(0.1):
        labels.pop(INSTANCE_TYPE)  # a node of unknown price
    return Node(
        metadata=ObjectMeta(name=machine.name, labels=labels, deletion_timestamp=NOON if deleting else None),
        spec=NodeSpec(provider_id=f"kwok://{machine.name}", taints=tuple(taints), unschedulable=cordoned),
        status=NodeStatus(capacity=machine.type.capacity, allocatable=machine.type.allocatable),
    )


def _starting(dice: Dice, machine: Machine) -> Node:
    """Registered, not yet initialised: startup taints and not-ready pass, and not all resources are reported."""
    labels = {**machine.labels, HOSTNAME: machine.name, REGISTERED: "true"}
    taints = (*machine.pool.spec.template.spec.taints, NOT_READY, STARTUP_TAINT)
    reported = dict(machine.type.allocatable)
    if dice.maybe(0.5):
        reported.pop("memory")
    return Node(
        metadata=ObjectMeta(name=machine.name, labels=labels),
        spec=NodeSpec(provider_id=f"kwok://{machine.name}", taints=taints),
        status=NodeStatus(capacity=machine.type.capacity, allocatable=reported),
    )


def _foreign(dice: Dice, machine: Machine) -> Node:
    """A node nobody of ours made."""
    labels = {HOSTNAME: machine.name, ARCH: "amd64", OS: "linux"}
    if dice.maybe(0.8):
        labels[ZONE] = dice.pick(ZONES)
    if dice.maybe(0.4):
        labels[TEAM] = dice.pick(("red", "blue"))
    size = amounts(cpu=dice.between(1, 4), memory="4Gi", pods=dice.pick((3, 10)))
    return Node(
        metadata=ObjectMeta(name=machine.name, labels=labels),
        spec=NodeSpec(taints=(dice.pick(TAINTS),) if dice.about("taints", 0.3) else ()),
        status=NodeStatus(capacity=size, allocatable=size),
    )


def _claim(machine: Machine, stage: str, *, deleting: bool = False) -> NodeClaim:
    """A claim that has passed a stage, and all before it."""
    stages = ("Launched", "Registered", "Initialized")
    passed = stages[: stages.index(stage) + 1]
    labels = dict(machine.labels)
    return NodeClaim(
        metadata=ObjectMeta(name=machine.name, labels=labels, deletion_timestamp=NOON if deleting else None),
        spec=NodeClaimSpec(taints=machine.pool.spec.template.spec.taints, startup_taints=(STARTUP_TAINT,)),
        status=NodeClaimStatus(
            node_name=machine.name if stage != "Launched" else "",
            provider_id=f"kwok://{machine.name}",
            capacity=machine.type.capacity,
            allocatable=machine.type.allocatable,
            conditions=tuple(Condition(type=each, status="True") for each in passed),
        ),
    )


def _unlaunched(dice: Dice, machine: Machine) -> NodeClaim:
    """A claim that still leaves choices open."""
    return NodeClaim(
        metadata=ObjectMeta(
            name=machine.name,
            labels={NODEPOOL: machine.pool.name, **machine.pool.spec.template.metadata.labels},
        ),
        spec=NodeClaimSpec(
            taints=machine.pool.spec.template.spec.taints,
            startup_taints=(STARTUP_TAINT,),
            requirements=tuple(_open_requirements(dice, machine)),
            resources=ClaimResources(requests=amounts(cpu=dice.pick(("2", "3500m")), memory="4Gi", pods="6")),
        ),
    )


def _open_requirements(dice: Dice, machine: Machine) -> list[NodeRequirement]:
    every = (
        requirement(ZONE, "In", *dice.some(ZONES)[:2]),
        requirement(CAPACITY_TYPE, "In", *dice.some(("on-demand", "spot"))),
        requirement(INSTANCE_TYPE, "In", machine.type.name),
        requirement(ARCH, "In", machine.labels[ARCH]),
        dice.pick((requirement(CPUS, "Gt", "1"), requirement(CPUS, "Gte", "4"), requirement(CPUS, "In", "2", "4"))),
        dice.pick((requirement(RACK, "NotIn", "r1"), requirement(RACK, "Exists"), requirement(RACK, "In", "r2"))),
    )
    return dice.some(every, 3)
