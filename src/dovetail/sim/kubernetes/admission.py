"""Defaulting and admission for built-in kinds, as the built-in admission plugins do it.

Sets default tolerations (DefaultTolerationSeconds), priorities (Priority), requests from limits and LimitRanges
(LimitRanger), and the not-ready taint of new nodes (TaintNodesByCondition). The minimum and maximum of a LimitRange are
not enforced. Custom kinds are validated by their schema through the hook of the API server, not here.
"""

from dovetail.manifest.schema import Scope, schema_of
from dovetail.manifest.status_fields import KWOK_VERSION
from dovetail.model.kube_object import Key
from dovetail.ports.errors import Forbidden
from dovetail.sim.kubernetes.kinds import KWOK_NODE_CLASS, LIMIT_RANGE, NAMESPACE, NODE, POD, PRIORITY_CLASS, Resource
from dovetail.sim.kubernetes.merge_patch import Plain, with_meta
from dovetail.sim.kubernetes.store import Store

_NOT_READY = "node.kubernetes.io/not-ready"
_NAMESPACE_NAME = "kubernetes.io/metadata.name"
_UNREACHABLE = "node.kubernetes.io/unreachable"
_DEFAULT_TOLERATION_SECONDS = 300
_SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def apply_defaults(store: Store, resource: Resource, plain: Plain) -> Plain:
    """A new object with the defaults of its kind; raises `Forbidden` if an admission plugin refuses it."""
    if resource == POD:
        spec = _pod_spec(store, plain["metadata"].get("namespace", ""), plain.get("spec") or {})
        return {**plain, "spec": spec, "status": {"phase": "Pending"}}
    if resource == NODE:
        return with_allocatable({**plain, "spec": _tainted_not_ready(plain.get("spec") or {})})
    if resource == KWOK_NODE_CLASS:
        return {**plain, "status": schema_of(Scope("KWOKNodeClass", KWOK_VERSION))["properties"]["status"]["default"]}
    if resource == NAMESPACE:
        labels = {**(plain["metadata"].get("labels") or {}), _NAMESPACE_NAME: plain["metadata"]["name"]}
        return with_meta(plain, labels=labels)
    return plain


def _pod_spec(store: Store, namespace: str, spec: Plain) -> Plain:
    defaults = {"restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "schedulerName": "default-scheduler"}
    filled = {**defaults, **spec, "tolerations": _with_default_tolerations(spec.get("tolerations") or [])}
    limit_ranges = [each.plain for each in store.all(LIMIT_RANGE) if each.key.namespace == namespace]
    ranges = [defaults for each in limit_ranges for defaults in _container_defaults(each)]
    for field in ("containers", "initContainers"):
        if spec.get(field):
            filled[field] = _with_default_requests(spec[field], ranges)
    if (spec.get("resources") or {}).get("limits"):
        filled["resources"] = _with_pod_requests(filled)
    filled.update(_priority(store, spec))
    if spec.get("overhead") and not spec.get("runtimeClassName"):
        raise Forbidden("spec.overhead cannot be set without a RuntimeClass")
    return filled


def _with_default_tolerations(tolerations: list[Plain]) -> list[Plain]:
    filled = list(tolerations)
    for key in (_NOT_READY, _UNREACHABLE):
        covered = any(
            toleration.get("key", key) == key and toleration.get("effect", "NoExecute") == "NoExecute"
            for toleration in tolerations
        )
        if not covered:
            seconds = _DEFAULT_TOLERATION_SECONDS
            filled.append({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds})
    return filled


def _with_default_requests(containers: list[Plain], ranges: list[tuple[Plain, Plain]]) -> list[Plain]:
    """Requests default to limits, then to the LimitRange defaults. Returns the same list if nothing changed."""
    filled = [_with_requests(container, ranges) for container in containers]
    same = all(after is before for after, before in zip(filled, containers, strict=True))
    return containers if same else filled


def _with_requests(container: Plain, ranges: list[tuple[Plain, Plain]]) -> Plain:
    resources = container.get("resources") or {}
    limits: Plain = resources.get("limits") or {}
    if not limits and not ranges:
        return container
    requests = {**limits, **(resources.get("requests") or {})}
    for default_limits, default_requests in ranges:
        limits, requests = {**default_limits, **limits}, {**default_requests, **requests}
    return {**container, "resources": {**resources, "limits": limits, "requests": requests}}


def _container_defaults(limit_range: Plain) -> list[tuple[Plain, Plain]]:
    """The default limits and requests of containers; missing ones are derived from `max`, `default` and `min`."""
    items = [each for each in limit_range["spec"].get("limits") or () if each.get("type") == "Container"]
    filled = []
    for item in items:
        limits = {**(item.get("max") or {}), **(item.get("default") or {})}
        filled.append((limits, {**(item.get("min") or {}), **limits, **(item.get("defaultRequest") or {})}))
    return filled


def _with_pod_requests(spec: Plain) -> Plain:
    """Pod-level requests default to pod-level limits, for resources that no container requests."""
    resources = spec["resources"]
    requests = [(each.get("resources") or {}).get("requests") or {} for each in spec.get("containers") or ()]
    limits = resources["limits"].items()
    missing = {name: amount for name, amount in limits if not any(name in each for each in requests)}
    return {**resources, "requests": {**missing, **(resources.get("requests") or {})}}


def _priority(store: Store, spec: Plain) -> Plain:
    """The priority of a new pod, from its PriorityClass; a pod that sets another one is denied."""
    found = _priority_of_class(store, spec.get("priorityClassName") or "")
    for name, value in (("priority", found["priority"]), ("preemptionPolicy", "PreemptLowerPriority")):
        if spec.get(name) is not None and spec[name] != value:
            raise Forbidden(f"spec.{name}: {spec[name]} was given, but the PriorityClass of the pod has {value}")
    return found


def _priority_of_class(store: Store, name: str) -> Plain:
    if name in _SYSTEM_PRIORITIES:
        return {"priority": _SYSTEM_PRIORITIES[name]}
    if name:
        found = store.find(PRIORITY_CLASS, Key("", name))
        if found is None:
            raise Forbidden(f"no PriorityClass with name {name} was found")
        return {"priority": found.plain.get("value", 0)}
    for record in store.all(PRIORITY_CLASS):
        if record.plain.get("globalDefault"):
            return {"priority": record.plain.get("value", 0), "priorityClassName": record.key.name}
    return {"priority": 0}


def with_allocatable(plain: Plain) -> Plain:
    """A node whose allocatable defaults to its capacity."""
    status = plain.get("status") or {}
    if not status.get("capacity") or status.get("allocatable"):
        return plain
    return {**plain, "status": {**status, "allocatable": status["capacity"]}}


def _tainted_not_ready(spec: Plain) -> Plain:
    taints = spec.get("taints") or []
    if any(taint.get("key") == _NOT_READY and taint.get("effect") == "NoSchedule" for taint in taints):
        return spec
    return {**spec, "taints": [*taints, {"key": _NOT_READY, "effect": "NoSchedule"}]}


def apply_update_defaults(resource: Resource, before: Plain, after: Plain) -> Plain:
    """A changed object with the defaults that updates get: the default tolerations of a pod."""
    if resource != POD or not isinstance(after.get("spec"), dict) or after["spec"] is before["spec"]:
        return after
    tolerations = after["spec"].get("tolerations")
    if tolerations is before["spec"].get("tolerations") or not isinstance(tolerations or [], list):
        return after
    return {**after, "spec": {**after["spec"], "tolerations": _with_default_tolerations(tolerations or [])}}
