"""Make a disagreement small: drop whatever can go while the difference stays."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from msgspec import structs

from dovetail.model.pod import Affinity, Container, Pod, PodSpec, ResourceRequirements
from dovetail.model.storage import Storage
from reference.clusters import Case

Differs = Callable[[Case], bool]


def shrink(case: Case, differs: Differs) -> Case:
    """The smallest case found, greedily, for which `differs` still holds."""
    progress = True
    while progress:
        progress = False
        for smaller in _smaller(case):
            if _holds(smaller, differs):
                case, progress = smaller, True
                break
    return case


def _holds(case: Case, differs: Differs) -> bool:
    try:
        return differs(case)
    except Exception:  # noqa: BLE001 - a case that breaks a solver otherwise than the one at hand is another story
        return False


def _smaller(case: Case) -> Iterator[Case]:
    snapshot = case.snapshot
    for index in range(len(case.pods)):
        yield replace(case, pods=_without(case.pods, index))
    for index in range(len(snapshot.nodes)):
        yield _with_snapshot(case, nodes=_without(snapshot.nodes, index))
    for index, node in enumerate(snapshot.nodes):
        for at in range(len(node.pods)):
            emptier = replace(node, pods=_without(node.pods, at))
            yield _with_snapshot(case, nodes=(*snapshot.nodes[:index], emptier, *snapshot.nodes[index + 1 :]))
    yield from _plainer_clusters(case)
    yield from _fewer_types(case)
    for index, pod in enumerate(case.pods):
        for simpler in _simpler_pods(pod):
            yield replace(case, pods=(*case.pods[:index], simpler, *case.pods[index + 1 :]))


def _plainer_clusters(case: Case) -> Iterator[Case]:
    snapshot = case.snapshot
    for index in range(len(case.pools)):
        yield replace(case, pools=_without(case.pools, index))
    for index in range(len(snapshot.daemon_sets)):
        yield _with_snapshot(case, daemon_sets=_without(snapshot.daemon_sets, index))
    if snapshot.storage != Storage():
        yield _with_snapshot(case, storage=Storage())
    nominated = tuple(pod for pod in snapshot.unbound_pods if pod.status.nominated_node_name)
    if nominated:
        kept = tuple(pod for pod in snapshot.unbound_pods if not pod.status.nominated_node_name)
        yield _with_snapshot(case, unbound_pods=kept)


def _fewer_types(case: Case) -> Iterator[Case]:
    catalogs = case.snapshot.catalogs
    for pool, types in catalogs.items():
        for index, each in enumerate(types):
            yield _with_snapshot(case, catalogs={**catalogs, pool: _without(types, index)})
            for at in range(len(each.offerings)):
                leaner = replace(each, offerings=_without(each.offerings, at))
                fewer = (*types[:index], leaner, *types[index + 1 :])
                yield _with_snapshot(case, catalogs={**catalogs, pool: fewer})


def _simpler_pods(pod: Pod) -> Iterator[Pod]:
    """The pod with one kind of wish less."""
    plain = {
        "node_selector": {},
        "affinity": None,
        "tolerations": (),
        "init_containers": (),
        "resources": None,
        "overhead": {},
        "volumes": (),
        "priority": 0,
    }
    for name, value in plain.items():
        if getattr(pod.spec, name) != value:
            yield structs.replace(pod, spec=structs.replace(pod.spec, **{name: value}))
    for index in range(len(pod.spec.topology_spread_constraints)):
        fewer = _without(pod.spec.topology_spread_constraints, index)
        yield structs.replace(pod, spec=structs.replace(pod.spec, topology_spread_constraints=fewer))
    if pod.spec.affinity is not None:
        yield from (
            structs.replace(pod, spec=structs.replace(pod.spec, affinity=each))
            for each in _simpler_affinity(pod.spec.affinity)
        )
    bare = (Container(resources=ResourceRequirements()),)
    if pod.spec.containers != bare:
        yield structs.replace(pod, spec=structs.replace(pod.spec, containers=bare))


def _simpler_affinity(affinity: Affinity) -> Iterator[Affinity]:
    for side in ("node_affinity", "pod_affinity", "pod_anti_affinity"):
        rules = getattr(affinity, side)
        if rules is None:
            continue
        yield structs.replace(affinity, **{side: None})
        for name in type(rules).__struct_fields__:
            terms = getattr(rules, name)
            if isinstance(terms, tuple):
                for index in range(len(terms)):
                    yield structs.replace(affinity, **{side: structs.replace(rules, **{name: _without(terms, index)})})


def changed_spec(pod: Pod, **changes: object) -> Pod:
    """The pod with parts of its spec replaced."""
    spec: PodSpec = structs.replace(pod.spec, **changes)
    return structs.replace(pod, spec=spec)


def _without(many: tuple, index: int) -> tuple:
    return (*many[:index], *many[index + 1 :])


def _with_snapshot(case: Case, **changes: object) -> Case:
    return replace(case, snapshot=replace(case.snapshot, **changes))
