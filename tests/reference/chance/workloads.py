"""Random pods. Pods come as replicas of a workload, so that rules about equal pods have something to count."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from msgspec import structs

from dovetail.model.cluster_objects import DaemonSet, DaemonSetSpec
from dovetail.model.kube_object import Condition, ObjectMeta, OwnerReference
from dovetail.model.pod import (
    Affinity,
    ClaimTemplate,
    ClaimTemplateSpec,
    ClaimVolume,
    Container,
    ContainerPort,
    EphemeralVolume,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    PodStatus,
    PodTemplate,
    ResourceRequirements,
    Volume,
)
from dovetail.model.resources import Quantity
from reference.chance.catalog import amounts, expression
from reference.chance.dice import APPS, CPUS, GPU, NAMESPACES, Dice
from reference.chance.rules import some_affinity, some_selector, some_spreads, some_term, some_tolerations

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
UNSCHEDULABLE = Condition(type="PodScheduled", status="False", reason="Unschedulable")


@dataclass(frozen=True)
class Workload:
    """What equal pods are made from."""

    name: str
    namespace: str
    labels: dict[str, str]
    spec: PodSpec


def some_workload(dice: Dice, claims: list[str]) -> Workload:
    app = dice.pick(APPS)
    labels = {"app": app}
    if dice.maybe(0.5):
        labels["hash"] = dice.pick(("h1", "h2"))
    if dice.maybe(0.4):
        labels["track"] = dice.pick(("stable", "canary"))
    namespace = dice.pick(("default", "default", "default", *NAMESPACES))
    spec = PodSpec(
        node_selector=some_selector(dice),
        affinity=some_affinity(dice, app),
        tolerations=some_tolerations(dice),
        topology_spread_constraints=some_spreads(dice, app),
        containers=_containers(dice),
        init_containers=_init_containers(dice) if dice.about("containers", 0.6) else (),
        resources=_whole_pod(dice) if dice.about("containers", 0.3) else None,
        overhead=amounts(cpu="50m", memory="64Mi") if dice.about("containers", 0.3) else {},
        volumes=some_volumes(dice, claims),
        priority=dice.pick((0, 0, 0, 10, 1000)),
    )
    return Workload(dice.name(app), namespace, labels, spec)


def some_volumes(dice: Dice, claims: list[str]) -> tuple[Volume, ...]:
    if not dice.about("volumes", 0.6):
        return ()
    reachable = claims if dice.maybe(0.5) else claims[:-2]
    mounted = dice.random.sample(reachable, dice.pick((0, 1, 1, 2)))
    named = [
        Volume(name=f"v{index}", persistent_volume_claim=ClaimVolume(claim_name=claim))
        for index, claim in enumerate(mounted)
    ]
    if dice.maybe(0.25):
        template = ClaimTemplate(spec=ClaimTemplateSpec(storage_class_name=dice.pick(("zonal", "anywhere"))))
        named.append(Volume(name="scratch", ephemeral=EphemeralVolume(volume_claim_template=template)))
    return (*named, Volume(name="config")) if dice.maybe(0.3) else tuple(named)


def _containers(dice: Dice) -> tuple[Container, ...]:
    requests = amounts(cpu=dice.pick(("100m", "250m", "500m", "1", "1500m", "2")))
    if dice.maybe(0.8):
        requests |= amounts(memory=dice.pick(("128Mi", "512Mi", "1Gi", "2Gi")))
    if dice.about("containers", 0.3):
        requests |= dice.pick((amounts(cpu="333333u"), amounts(memory="1500000000500m"), amounts(storage="5Gi")))
    if dice.maybe(0.07):
        requests |= amounts(gpu=1)
    ports = ()
    if dice.about("ports", 0.6):
        ports = (
            ContainerPort(
                container_port=80,
                host_port=dice.pick((8080, 9090)),
                host_ip=dice.pick(("", "", "10.0.0.1", "10.0.0.2", "::")),
                protocol=dice.pick(("TCP", "TCP", "UDP")),
            ),
        )
    main = Container(name="main", resources=ResourceRequirements(requests=requests), ports=ports)
    if dice.about("containers", 0.4):
        return (main, Container(name="aside", resources=ResourceRequirements(requests=amounts(cpu="100m"))))
    return (main,)


def _init_containers(dice: Dice) -> tuple[Container, ...]:
    def container(name: str, policy: str | None, cpu: str) -> Container:
        ports = (ContainerPort(container_port=1, host_port=9090),) if dice.about("ports", 0.4) else ()
        asked = ResourceRequirements(requests=amounts(cpu=cpu, memory="256Mi"))
        return Container(name=name, resources=asked, ports=ports, restart_policy=policy)

    every = (
        container("prepare", None, dice.pick(("1", "3"))),
        container("sidecar", "Always", "200m"),
        container("finish", None, "2"),
    )
    return tuple(dice.some(every))


def _whole_pod(dice: Dice) -> ResourceRequirements:
    return ResourceRequirements(requests=amounts(cpu=dice.pick(("300m", "2"))) | {GPU: Quantity.of(1)})


def replica(dice: Dice, workload: Workload, **status: str) -> Pod:
    """A pod that waits for a node."""
    name = dice.name(workload.name)
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=workload.namespace,
            uid=f"uid-{dice.between(100, 999)}-{name}",
            labels=workload.labels,
            creation_timestamp=NOON + timedelta(seconds=dice.between(0, 2)),
        ),
        spec=workload.spec,
        status=PodStatus(conditions=(UNSCHEDULABLE,), **status),
    )


def bound(pod: Pod, node: str, phase: str = "Running", *, deleting: bool = False, owner: str = "") -> Pod:
    """The pod on a node, in whatever state."""
    kind, version = {"Node": ("Node", "v1")}.get(owner, (owner, "apps/v1"))
    owners = (OwnerReference(api_version=version, kind=kind, name="owner", uid="uid-owner"),) if owner else ()
    metadata = structs.replace(pod.metadata, deletion_timestamp=NOON if deleting else None, owner_references=owners)
    return Pod(metadata=metadata, spec=structs.replace(pod.spec, node_name=node), status=PodStatus(phase=phase))


def light(workload: Workload) -> Workload:
    """The same workload with a small request, so that nodes can hold a few."""
    asked = ResourceRequirements(requests=amounts(cpu="200m", memory="128Mi"))
    main = structs.replace(workload.spec.containers[0], resources=asked)
    spec = structs.replace(workload.spec, containers=(main,), init_containers=(), resources=None, overhead={})
    return replace(workload, spec=spec)


def some_daemon_sets(dice: Dice) -> tuple[DaemonSet, ...]:
    count = dice.between(1, 2) if "daemons" in dice.themes else 0
    return tuple(_daemon_set(dice, f"agent-{index}") for index in range(count))


def daemon_pod(dice: Dice, daemon_set: DaemonSet, node: str) -> Pod:
    """A pod of a DaemonSet on a node, with requests of its own and bound by affinity, old or new."""
    pinned = NodeSelectorTerm(match_fields=(expression("metadata.name", "In", node),))
    required = NodeSelector(node_selector_terms=(pinned,))
    spec = daemon_set.spec.template.spec
    asked = ResourceRequirements(requests=amounts(cpu=dice.pick(("100m", "900m")), memory="64Mi"))
    spec = structs.replace(
        spec,
        affinity=Affinity(node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=required)),
        containers=(structs.replace(spec.containers[0], resources=asked),),
        node_selector=some_selector(dice) if dice.maybe(0.1) else {},
    )
    pod = replica(dice, Workload(daemon_set.name, "kube-system", {}, spec))
    owner = OwnerReference(
        api_version="apps/v1", kind="DaemonSet", name=daemon_set.name, uid=daemon_set.metadata.uid, controller=True
    )
    pod = bound(pod, node, dice.pick(("Running",) * 4 + ("Failed",)), deleting=dice.maybe(0.2))
    return structs.replace(pod, metadata=structs.replace(pod.metadata, owner_references=(owner,)))


def _daemon_set(dice: Dice, name: str) -> DaemonSet:
    terms: tuple[NodeSelectorTerm, ...] = ()
    if dice.maybe(0.5):
        terms = dice.pick(
            (
                (NodeSelectorTerm(match_expressions=(expression(CPUS, "Gt", "2"),)),),
                (some_term(dice), NodeSelectorTerm(match_expressions=(expression(CPUS, "Lt", "8"),))),
                (some_term(dice),),
            )
        )
    required = NodeSelector(node_selector_terms=terms) if terms else None
    ports = (ContainerPort(container_port=1, host_port=9090),) if dice.about("ports", 0.7) else ()
    wanted = amounts(cpu=dice.pick(("50m", "300m")), memory="64Mi")
    only_limits = ResourceRequirements(limits=amounts(cpu="600m", memory="64Mi"), requests=amounts(memory="32Mi"))
    asked = only_limits if dice.maybe(0.3) else ResourceRequirements(requests=wanted)
    spec = PodSpec(
        containers=(Container(name="main", resources=asked, ports=ports),),
        tolerations=some_tolerations(dice),
        affinity=Affinity(node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=required)),
    )
    metadata = ObjectMeta(name=name, namespace="kube-system", uid=f"uid-{name}")
    return DaemonSet(metadata=metadata, spec=DaemonSetSpec(template=PodTemplate(spec=spec)))
