"""Random instance types and NodePools."""

from dovetail.model.catalog import InstanceType, Offering
from dovetail.model.kube_object import Condition, ObjectMeta
from dovetail.model.labels import ARCH, CAPACITY_TYPE, INSTANCE_TYPE, OS, ZONE
from dovetail.model.nodepool import (
    NodeClaimTemplate,
    NodeClaimTemplateSpec,
    NodeClassRef,
    NodePool,
    NodePoolSpec,
    NodePoolStatus,
    NodeRequirement,
    TemplateMetadata,
)
from dovetail.model.pod import NodeSelectorRequirement
from dovetail.model.requirements import Requirement, Requirements
from dovetail.model.resources import Quantity
from dovetail.model.taints import Taint
from reference.chance.dice import CPUS, FAMILY, GPU, RACK, RESERVATION, TEAM, ZONES, Dice

FACTORS = {"on-demand": 1.0, "spot": 0.4, "reserved": 0.1}
TAINTS = (
    Taint("dedicated", "red", "NoSchedule"),
    Taint("dedicated", "blue", "NoExecute"),
    Taint("slow", "", "PreferNoSchedule"),
    Taint("rank", "5", "NoSchedule"),
)
STARTUP_TAINT = Taint("warming", "", "NoSchedule")
NODE_CLASS = NodeClassRef(group="karpenter.kwok.sh", kind="KWOKNodeClass", name="default")


def amounts(**given: str | int) -> dict[str, Quantity]:
    names = {"gpu": GPU, "storage": "ephemeral-storage"}
    return {names.get(name, name): Quantity.of(amount) for name, amount in given.items()}


def some_types(dice: Dice) -> tuple[InstanceType, ...]:
    count = dice.between(3, 6) if dice.size == "small" else dice.between(4, 8)
    return tuple(_type(dice, index) for index in range(count))


def _type(dice: Dice, index: int) -> InstanceType:
    cpu = dice.pick((1, 2, 4, 4, 8, 16))
    name, arch = f"t{index}.{cpu}x", dice.pick(("amd64", "amd64", "arm64"))
    offerings = _offerings(dice, name, cpu)
    requirements = Requirements.of(
        [
            Requirement.of(INSTANCE_TYPE, "In", [name]),
            Requirement.of(ARCH, "In", [arch]),
            Requirement.of(OS, "In", ["linux"]),
            Requirement.of(CPUS, "In", [str(cpu)]),
            Requirement.of(FAMILY, "In", [dice.pick(("m", "c"))]),
            Requirement.of(ZONE, "In", sorted({each.zone for each in offerings})),
            Requirement.of(CAPACITY_TYPE, "In", sorted({each.capacity_type for each in offerings})),
        ]
    )
    capacity = amounts(cpu=cpu, memory=f"{cpu * dice.pick((1, 2, 4))}Gi", pods=dice.pick((4, 8, 110)))
    if dice.maybe(0.3):
        capacity |= amounts(gpu=dice.between(1, 2))
    if dice.maybe(0.5):
        capacity |= amounts(storage="20Gi")
    overhead = amounts(cpu="80m", memory="100Mi") if dice.maybe(0.4) else {}
    return InstanceType(name, requirements, offerings, capacity, overhead)


def _offerings(dice: Dice, name: str, cpu: int) -> tuple[Offering, ...]:
    base, found = cpu * dice.pick((0.05, 0.06, 0.08)), []
    for zone in dice.some(ZONES):
        for sold_as in dice.some(tuple(FACTORS)):
            labels = {ZONE: zone, CAPACITY_TYPE: sold_as}
            if sold_as == "reserved":
                labels[RESERVATION] = f"r-{name}-{zone}"
            price = round(base * FACTORS[sold_as] * dice.pick((1.0, 1.1)), 4)
            found.append(Offering(Requirements.from_labels(labels), price, dice.maybe(0.85)))
    return tuple(found)


def some_pools(dice: Dice, types: tuple[InstanceType, ...]) -> list[NodePool]:
    return [_pool(dice, name, types) for name in dice.some(("east", "main", "west"))]


def _pool(dice: Dice, name: str, types: tuple[InstanceType, ...]) -> NodePool:
    template = NodeClaimTemplateSpec(
        taints=tuple(dice.some(TAINTS)[:2]) if dice.about("taints", 0.4) else (),
        startup_taints=(STARTUP_TAINT,) if dice.about("taints", 0.3) else (),
        requirements=tuple(_pool_requirements(dice, types)),
        node_class_ref=NODE_CLASS,
    )
    labels = {TEAM: dice.pick(("red", "blue"))} if dice.maybe(0.4) else {}
    return NodePool(
        metadata=ObjectMeta(name=name, uid=f"uid-{name}"),
        spec=NodePoolSpec(
            template=NodeClaimTemplate(metadata=TemplateMetadata(labels=labels), spec=template),
            limits=_limits(dice) if dice.about("limits", 0.8) else {},
            weight=dice.pick((None, 10, 50)) if dice.maybe(0.5) else None,
        ),
        status=NodePoolStatus(conditions=(Condition(type="Ready", status="True"),)),
    )


def _limits(dice: Dice) -> dict[str, Quantity]:
    every = {"cpu": str(dice.between(4, 40)), "memory": f"{dice.between(8, 80)}Gi", "nodes": str(dice.between(1, 6))}
    return {name: Quantity.of(every[name]) for name in dice.some(tuple(every))}


def _pool_requirements(dice: Dice, types: tuple[InstanceType, ...]) -> list[NodeRequirement]:
    found = []
    if dice.maybe(0.3):
        found.append(requirement(RACK, "In", *dice.some(("r1", "r2", "r3"))))
    if dice.about("minvalues", 0.7):
        found.append(_wide_requirement(dice, types))
    if dice.about("requirements", 0.9):
        found += [make(dice) for make in dice.some((_zones, _ways_to_pay, _numbers, _others))[:2]]
    return found


def _wide_requirement(dice: Dice, types: tuple[InstanceType, ...]) -> NodeRequirement:
    key, operator, values, least = dice.pick(
        (
            (INSTANCE_TYPE, "Exists", (), 2),
            (INSTANCE_TYPE, "In", tuple(each.name for each in types), 2),
            (ZONE, "In", ZONES, 2),
            (FAMILY, "Exists", (), 2),
            (CPUS, "Gt", ("1",), 2),
        )
    )
    return NodeRequirement(key=key, operator=operator, values=values, min_values=least)


def _zones(dice: Dice) -> NodeRequirement:
    return requirement(ZONE, dice.pick(("In", "NotIn")), *dice.some(ZONES)[:2])


def _ways_to_pay(dice: Dice) -> NodeRequirement:
    return requirement(CAPACITY_TYPE, dice.pick(("In", "In", "NotIn")), *dice.some(tuple(FACTORS))[:2])


def _numbers(dice: Dice) -> NodeRequirement:
    operator, bound = dice.pick((("Gt", "1"), ("Lt", "8"), ("Gte", "2"), ("Lte", "4")))
    return requirement(CPUS, operator, bound)


def _others(dice: Dice) -> NodeRequirement:
    return dice.pick(
        (
            requirement(FAMILY, "Exists"),
            requirement(RACK, "Exists"),
            requirement(RESERVATION, "DoesNotExist"),
            requirement(FAMILY, "NotIn", "c"),
            requirement(ARCH, "In", "amd64"),
        )
    )


def requirement(key: str, operator: str, *values: str) -> NodeRequirement:
    return NodeRequirement(key=key, operator=operator, values=values)


def expression(key: str, operator: str, *values: str) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key=key, operator=operator, values=values)
