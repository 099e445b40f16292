"""Validation of pod specs, pod templates, resource requests and limits, and pod updates.

A pod update may change only images, tolerations (added), `activeDeadlineSeconds` (lowered) and scheduling gates
(removed); node selector and affinity only while the pod is gated.
"""

from collections.abc import Iterator, Mapping, Sequence

from dovetail.model.kube_object import Fault
from dovetail.model.resources import Quantity
from dovetail.sim.kubernetes.merge_patch import Plain
from dovetail.sim.kubernetes.validation.metadata import (
    annotation_faults,
    choice_faults,
    is_key,
    is_label,
    is_subdomain,
    label_faults,
)
from dovetail.sim.kubernetes.validation.placement import placement_faults

_OF_CONTAINERS = frozenset({"cpu", "memory", "ephemeral-storage"})
_OF_PODS = frozenset({"cpu", "memory"})
_HUGE_PAGES = "hugepages-"
_NANO = 1_000_000_000

Amounts = Mapping[str, int | float | str]


def container_size_faults(resources: Plain, path: str) -> Iterator[Fault]:
    """Everything wrong with the requests and limits of one container."""
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for part, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            here = f"{path}.{part}[{name}]"
            if not _is_container_resource(name):
                yield Fault(here, "is not a resource of containers; others need a domain, as example.com/gpu", name)
            yield from _amount_faults(name, amount, here)
    yield from _pair_faults(requests, limits, path)
    names = {*requests, *limits}
    if any(map(_is_huge, names)) and not names & _OF_PODS:
        yield Fault(path, "huge pages also need cpu or memory")


def pod_size_faults(resources: Plain, containers: list[Plain], path: str) -> Iterator[Fault]:
    """Everything wrong with pod-level requests and limits."""
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for part, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            if name not in _OF_PODS and not _is_huge(name):
                yield Fault(f"{path}.{part}[{name}]", "is not a resource of whole pods", name)
            yield from _amount_faults(name, amount, f"{path}.{part}[{name}]")
    yield from _pair_faults(requests, limits, path)
    container_requests = [(each.get("resources") or {}).get("requests") or {} for each in containers]
    for name, amount in requests.items():
        if sum(Quantity.of(each.get(name, 0)).nano for each in container_requests) > Quantity.of(amount).nano:
            yield Fault(f"{path}.requests[{name}]", "must be at least what the containers request together", amount)


def capacity_faults(status: Plain) -> Iterator[Fault]:
    """Everything wrong with the capacity and allocatable of a node."""
    for part in ("capacity", "allocatable"):
        for name, amount in (status.get(part) or {}).items():
            yield from _amount_faults(name, amount, f"status.{part}.{name}")


def nomination_faults(before: Plain, after: Plain) -> Iterator[Fault]:
    """A fault if a bound pod is nominated to a node."""
    name = (after.get("status") or {}).get("nominatedNodeName", "")
    if name and after["spec"].get("nodeName") and name != (before.get("status") or {}).get("nominatedNodeName"):
        yield Fault("status.nominatedNodeName", "cannot be set on a pod that is bound", name)


def _is_huge(name: str) -> bool:
    return name.startswith(_HUGE_PAGES)


def _is_extended(name: str) -> bool:
    return "/" in name and not name.partition("/")[0].endswith("kubernetes.io")


def _is_container_resource(name: str) -> bool:
    return name in _OF_CONTAINERS or _is_huge(name) or ("/" in name and is_key(name))


def _amount_faults(name: str, amount: int | float | str, path: str) -> Iterator[Fault]:  # noqa: PYI041 - as in JSON
    quantity = Quantity.of(amount)
    if quantity.nano < 0:
        yield Fault(path, "must not be negative", amount)
    elif _is_extended(name) and quantity.nano % _NANO:
        yield Fault(path, "must be a whole number", amount)


def _pair_faults(requests: Amounts, limits: Amounts, path: str) -> Iterator[Fault]:
    for name, amount in requests.items():
        exact = _is_huge(name) or _is_extended(name)
        if name not in limits:
            if exact:
                yield Fault(f"{path}.limits", f"must be set for {name}, which cannot be overcommitted")
            continue
        request, limit = Quantity.of(amount).nano, Quantity.of(limits[name]).nano
        if request > limit:
            yield Fault(f"{path}.requests", f"must not be above the limit of {limits[name]} for {name}", amount)
        elif exact and request != limit:
            yield Fault(f"{path}.requests", f"must be equal to the limit of {limits[name]} for {name}", amount)


_RESTARTS = frozenset({"Always", "OnFailure", "Never"})
_DNS_POLICIES = frozenset({"ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"})
_PULLS = frozenset({"Always", "IfNotPresent", "Never"})
_LAST_PORT = 65535
_UPDATABLE = frozenset({"containers", "initContainers", "tolerations", "activeDeadlineSeconds", "schedulingGates"})
_WHILE_GATED = frozenset({"nodeSelector", "affinity"})


def pod_spec_faults(spec: Plain, path: str = "spec") -> Iterator[Fault]:
    """Everything wrong with the spec of a pod."""
    containers = spec.get("containers") or []
    if not containers:
        yield Fault(f"{path}.containers", "must have at least one container")
    yield from _container_list_faults(spec, path)
    yield from _field_faults(spec, path)
    yield from _volume_faults(spec.get("volumes") or (), f"{path}.volumes")
    if spec.get("resources"):
        yield from pod_size_faults(spec["resources"], containers, f"{path}.resources")
    yield from placement_faults(spec, path)


def template_faults(template: Plain | None, path: str, restarts: frozenset[str]) -> Iterator[Fault]:
    """Everything wrong with the pod template of a workload that allows these restart policies."""
    template = template or {}
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    yield from label_faults(meta.get("labels"), f"{path}.labels")
    yield from annotation_faults(meta.get("annotations") or {}, f"{path}.annotations")
    yield from pod_spec_faults(spec, f"{path}.spec")
    yield from choice_faults(spec.get("restartPolicy", "Always"), restarts, f"{path}.spec.restartPolicy")


def _container_list_faults(spec: Plain, path: str) -> Iterator[Fault]:
    volumes = {each.get("name") for each in spec.get("volumes") or ()}
    names: set[str] = set()
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            here, name = f"{path}.{field}[{index}]", container.get("name") or ""
            if not is_label(name):
                yield Fault(f"{here}.name", "must be a DNS label", name)
            elif name in names:
                yield Fault(f"{here}.name", "is the name of another container", name)
            names.add(name)
            yield from _container_faults(container, here, volumes)


def _container_faults(container: Plain, path: str, volumes: set[str | None]) -> Iterator[Fault]:
    image = container.get("image") or ""
    if not image or image.strip() != image:
        yield Fault(f"{path}.image", "must be the name of an image", image)
    yield from choice_faults(container.get("imagePullPolicy"), _PULLS, f"{path}.imagePullPolicy")
    yield from choice_faults(container.get("restartPolicy"), frozenset({"Always"}), f"{path}.restartPolicy")
    for index, port in enumerate(container.get("ports") or ()):
        if not 0 < (port.get("containerPort") or 0) <= _LAST_PORT:
            yield Fault(f"{path}.ports[{index}].containerPort", f"must be from 1 to {_LAST_PORT}")
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        if mount.get("name") not in volumes:
            yield Fault(f"{path}.volumeMounts[{index}].name", "is not a volume of the pod", mount.get("name"))
    if container.get("resources"):
        yield from container_size_faults(container["resources"], f"{path}.resources")


def _field_faults(spec: Plain, path: str) -> Iterator[Fault]:
    yield from choice_faults(spec.get("restartPolicy"), _RESTARTS, f"{path}.restartPolicy")
    yield from choice_faults(spec.get("dnsPolicy"), _DNS_POLICIES, f"{path}.dnsPolicy")
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and deadline < 1:
        yield Fault(f"{path}.activeDeadlineSeconds", "must be at least 1", deadline)
    node, gates = spec.get("nodeName"), [each.get("name") or "" for each in spec.get("schedulingGates") or ()]
    if node and not is_subdomain(node):
        yield Fault(f"{path}.nodeName", "is not the name of a node", node)
    if node and gates:
        yield Fault(f"{path}.nodeName", "cannot be set until all schedulingGates have been cleared", node)
    if spec.get("hostname") and not is_label(spec["hostname"]):
        yield Fault(f"{path}.hostname", "must be a DNS label", spec["hostname"])
    for index, gate in enumerate(gates):
        if not is_key(gate) or gate in gates[:index]:
            yield Fault(f"{path}.schedulingGates[{index}]", "must be a qualified name, and each only once", gate)


def _volume_faults(volumes: Sequence[Plain], path: str) -> Iterator[Fault]:
    names = [each.get("name") or "" for each in volumes]
    for index, (volume, name) in enumerate(zip(volumes, names, strict=True)):
        if not is_label(name) or name in names[:index]:
            yield Fault(f"{path}[{index}].name", "must be a DNS label, and each only once", name)
        claim = volume.get("persistentVolumeClaim")
        if claim is not None and not claim.get("claimName"):
            yield Fault(f"{path}[{index}].persistentVolumeClaim.claimName", "must not be empty")


def pod_change_faults(before: Plain, after: Plain) -> Iterator[Fault]:
    """Everything wrong with an update of a pod spec, most of which is immutable."""
    for field in ("containers", "initContainers"):
        if len(before.get(field) or ()) != len(after.get(field) or ()):
            yield Fault(f"spec.{field}", "containers can be neither added nor removed")
            return
    yield from _deadline_faults(before.get("activeDeadlineSeconds"), after.get("activeDeadlineSeconds"))
    yield from _gate_faults(before.get("schedulingGates") or [], after.get("schedulingGates") or [])
    if not _keeps_tolerations(before.get("tolerations") or [], after.get("tolerations") or []):
        yield Fault("spec.tolerations", "tolerations can only be added")
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    frozen = changed - _UPDATABLE
    if before.get("schedulingGates"):
        frozen -= _WHILE_GATED
        yield from _gated_selector_faults(before.get("nodeSelector") or {}, after.get("nodeSelector") or {})
    for field in ("containers", "initContainers"):
        if field in changed and not _only_images_differ(before.get(field) or (), after.get(field) or ()):
            frozen |= {field}
    if frozen:
        yield Fault("spec", f"pod updates may not change {', '.join(sorted(frozen))}")


def _deadline_faults(before: int | None, after: int | None) -> Iterator[Fault]:
    if before is not None and (after is None or after > before):
        yield Fault("spec.activeDeadlineSeconds", f"must be at most {before}, as it was", after)


def _gate_faults(before: list[Plain], after: list[Plain]) -> Iterator[Fault]:
    for index, gate in enumerate(after):
        if gate not in before:
            yield Fault(f"spec.schedulingGates[{index}].name", "gates can only be removed", gate.get("name"))


def _gated_selector_faults(before: Plain, after: Plain) -> Iterator[Fault]:
    if any(after.get(key) != value for key, value in before.items()):
        yield Fault("spec.nodeSelector", "while the pod is gated, keys can only be added", after)


def _keeps_tolerations(before: list[Plain], after: list[Plain]) -> bool:
    """Whether no toleration was removed; `tolerationSeconds` may change."""
    left = [_without(each, "tolerationSeconds") for each in after]
    return all(_without(each, "tolerationSeconds") in left for each in before)


def _only_images_differ(before: Sequence[Plain], after: Sequence[Plain]) -> bool:
    pairs = zip(before, after, strict=True)
    return all(_without(old, "image") == _without(new, "image") for old, new in pairs)


def _without(plain: Plain, field: str) -> Plain:
    return {name: value for name, value in plain.items() if name != field}
