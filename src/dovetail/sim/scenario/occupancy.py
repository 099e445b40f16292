"""Which pods have a node, and for how long they had one: kept as they come and go.

Pods that ask for the same are counted together, so that a look costs no more when there are more replicas.
"""

from collections.abc import Hashable
from dataclasses import dataclass

from dovetail.model.kube_object import Key
from dovetail.model.pod import Pod


@dataclass(slots=True)
class PodGroup:
    """Pods that ask for the same."""

    pod: Pod  # one of them
    number: int = 0  # that have a node now
    seconds: float = 0.0  # by which what they had differs from as many as there are now, since the last look


class Occupancy:
    """The pods that have a node."""

    def __init__(self) -> None:
        self._alike: dict[Hashable, PodGroup] = {}
        self._home: dict[Key, tuple[str, PodGroup]] = {}
        self._on: dict[str, set[Key]] = {}  # by node
        self._looked_at = 0.0

    def __contains__(self, key: Key) -> bool:
        return key in self._home

    def node_of(self, key: Key) -> str:
        """The node of a pod, or empty."""
        home = self._home.get(key)
        return "" if home is None else home[0]

    def add(self, key: Key, pod: Pod, at: float) -> None:
        """A pod has got its node."""
        quick = _what_it_asks(pod)
        group = self._alike.get(quick)
        if group is None:
            group = self._alike[quick] = PodGroup(pod)  # with the pod, so that what it is found by means nothing else
        group.number += 1
        group.seconds -= at - self._looked_at
        self._home[key] = (pod.node_name, group)
        self._on.setdefault(pod.node_name, set()).add(key)

    def remove(self, key: Key, at: float) -> None:
        """A pod is over or gone."""
        node, group = self._home.pop(key)
        group.number -= 1
        group.seconds += at - self._looked_at
        others = self._on[node]
        others.discard(key)
        if not others:
            del self._on[node]

    def remove_node(self, node: str, at: float) -> None:
        """A machine is gone: what is still said to be on it runs nowhere."""
        for key in [*self._on.get(node, ())]:
            self.remove(key, at)

    def pod_seconds(self, now: float) -> list[tuple[Pod, float]]:
        """Pods that had a node since this was last asked, one for all that are alike, and their seconds together."""
        span = now - self._looked_at
        had = [(group.pod, group.seconds + group.number * span) for group in self._alike.values()]
        self._looked_at = now
        self._alike = {quick: group for quick, group in self._alike.items() if group.number}
        for group in self._alike.values():
            group.seconds = 0.0
        return had


def _what_it_asks(pod: Pod) -> Hashable:
    """The same for replicas, which share what they were made from."""
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
