"""Pod-seconds on nodes: for how long pods were bound to nodes, grouped by equal pods.

`Occupancy` counts replicas with the same spec together, so reading it costs time proportional to the number of distinct
pod specs. For each group it keeps the number of bound pods and a correction: pod-seconds since the last reading are
`number * elapsed + seconds`, where each pod that was added or removed in between has changed `seconds`.
"""

from collections.abc import Hashable
from dataclasses import dataclass

from dovetail.model.kube_object import Key
from dovetail.model.pod import Pod


@dataclass(slots=True)
class PodGroup:
    """Bound pods with the same spec."""

    pod: Pod  # one of them
    number: int = 0  # of pods that are bound now
    seconds: float = 0.0  # correction for pods added or removed since the last reading, see the module


class Occupancy:
    """The bound pods, by group and by node."""

    def __init__(self) -> None:
        self._groups: dict[Hashable, PodGroup] = {}
        self._bound: dict[Key, tuple[str, PodGroup]] = {}
        self._keys_by_node: dict[str, set[Key]] = {}  # by node
        self._read_at = 0.0

    def __contains__(self, key: Key) -> bool:
        return key in self._bound

    def node_of(self, key: Key) -> str:
        """The node of a pod, or empty."""
        bound = self._bound.get(key)
        return "" if bound is None else bound[0]

    def add(self, key: Key, pod: Pod, at: float) -> None:
        """Add a pod that was bound."""
        identity = _spec_identity(pod)
        group = self._groups.get(identity)
        if group is None:
            group = self._groups[identity] = PodGroup(pod)  # holds the pod, so that the ids in its key stay unique
        group.number += 1
        group.seconds -= at - self._read_at
        self._bound[key] = (pod.node_name, group)
        self._keys_by_node.setdefault(pod.node_name, set()).add(key)

    def remove(self, key: Key, at: float) -> None:
        """Remove a pod that finished or was deleted."""
        node, group = self._bound.pop(key)
        group.number -= 1
        group.seconds += at - self._read_at
        others = self._keys_by_node[node]
        others.discard(key)
        if not others:
            del self._keys_by_node[node]

    def remove_node(self, node: str, at: float) -> None:
        """Remove all pods of a node whose instance is gone."""
        for key in [*self._keys_by_node.get(node, ())]:
            self.remove(key, at)

    def pod_seconds(self, now: float) -> list[tuple[Pod, float]]:
        """One pod of each group, and the pod-seconds of the group since the last call."""
        elapsed = now - self._read_at
        seconds = [(group.pod, group.seconds + group.number * elapsed) for group in self._groups.values()]
        self._read_at = now
        self._groups = {identity: group for identity, group in self._groups.items() if group.number}
        for group in self._groups.values():
            group.seconds = 0.0
        return seconds


def _spec_identity(pod: Pod) -> Hashable:
    """Equal for replicas, whose decoded specs share their parts."""
    spec = pod.spec
    return (
        id(spec.containers),
        id(spec.affinity),
        id(spec.tolerations),
        id(spec.node_selector) if spec.node_selector else 0,
        id(spec.init_containers) if spec.init_containers else 0,
        id(spec.overhead) if spec.overhead else 0,
        id(spec.resources),
        pod.mirror,
    )
