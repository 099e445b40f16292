"""The solver: each pod to an existing node, else to a draft of this run, else to a new draft of the first fitting pool.

Larger pods go first. Nothing is bound here: the answer says which nodes to bring, and the cluster's own scheduler does
the rest. Every pod left over has a reason in words a kubectl user knows. Keeps Karpenter's order of pods, nodes and
pools.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from dovetail.core.scheduling.daemons import read_daemons
from dovetail.core.scheduling.draft import Draft, open_draft
from dovetail.core.scheduling.existing import Room, open_rooms
from dovetail.core.scheduling.limits import Limits
from dovetail.core.scheduling.shape import Shape, Shapes
from dovetail.core.scheduling.template import Template
from dovetail.model.pod import Pod
from dovetail.model.quantity import ZERO
from dovetail.model.refusal import Refusal
from dovetail.model.resources import CPU, MEMORY
from dovetail.model.snapshot import Snapshot
from dovetail.model.wire import Key


@dataclass(frozen=True)
class Placement:
    """The solver's answer."""

    node_by_pod: dict[Key, str]
    drafts: tuple[Draft, ...]
    refusals: dict[Key, Refusal]


@dataclass
class _Search:
    """What the search of one shape has learned. Rooms and drafts only shrink, so a refused one is never asked again."""

    shape: Shape
    rooms: list[Room]
    refused_nodes: Counter[str] = field(default_factory=Counter)
    refused_drafts: set[int] = field(default_factory=set)
    dead_end: str = ""


class Solver:
    """One run over one snapshot."""

    def __init__(self, snapshot: Snapshot, templates: Iterable[Template]) -> None:
        self._templates = tuple(templates)
        self._rooms = open_rooms(snapshot.nodes, read_daemons(snapshot.daemon_sets))
        self._limits = Limits.of(snapshot)
        self._shapes = Shapes()
        self._searches: dict[int, _Search] = {}
        self._drafts: list[Draft] = []

    def solve(self, pods: Iterable[Pod]) -> Placement:
        """Place all pods that can be placed."""
        node_by_pod: dict[Key, str] = {}
        refusals: dict[Key, Refusal] = {}
        for pod, shape in self._in_order(pods):
            search = self._search(shape)
            room = self._find_room(search)
            if room is not None:
                room.place(pod, shape)
                node_by_pod[pod.key] = room.node.name
            elif not self._find_draft(pod, search):
                refusals[pod.key] = Refusal("Unschedulable", f"pod/{pod.key}", self._why(search))
        return Placement(node_by_pod, tuple(self._drafts), refusals)

    def _in_order(self, pods: Iterable[Pod]) -> list[tuple[Pod, Shape]]:
        shaped = [(pod, self._shapes.of(pod)) for pod in pods]
        return sorted(shaped, key=_queue_order)

    def _search(self, shape: Shape) -> _Search:
        if id(shape) not in self._searches:
            self._searches[id(shape)] = _Search(shape, list(reversed(self._rooms)))
        return self._searches[id(shape)]

    def _find_room(self, search: _Search) -> Room | None:
        while search.rooms:
            problem = search.rooms[-1].refusal(search.shape)
            if not problem:
                return search.rooms[-1]
            search.refused_nodes[problem] += 1
            search.rooms.pop()
        return None

    def _find_draft(self, pod: Pod, search: _Search) -> bool:
        for draft in sorted(self._drafts, key=lambda draft: len(draft.pods)):
            if id(draft) in search.refused_drafts:
                continue
            outcome = draft.try_shape(search.shape)
            if isinstance(outcome, str):
                search.refused_drafts.add(id(draft))
            else:
                draft.take(pod, outcome)
                return True
        return not search.dead_end and self._open(pod, search)

    def _open(self, pod: Pod, search: _Search) -> bool:
        problems = []
        for template in self._templates:
            name = template.pool.name
            choices, problem = self._limits.allowed(name, template.choices)
            outcome = problem or (draft := open_draft(template, choices)).try_shape(search.shape)
            if isinstance(outcome, str):
                problems.append(f"nodepool {name}: {outcome}")
                continue
            draft.take(pod, outcome)
            self._limits.spend(name, draft.choices)
            self._drafts.append(draft)
            return True
        search.dead_end = "; ".join(problems) or "no NodePool can make nodes now"
        return False

    def _why(self, search: _Search) -> str:
        total = sum(search.refused_nodes.values())
        parts = [f"{count} {reason}" for reason, count in sorted(search.refused_nodes.items())]
        nodes = f"0/{total} nodes are available: {', '.join(parts)}. " if total else ""
        return f"{nodes}No new node can take it: {search.dead_end}"


def _queue_order(shaped: tuple[Pod, Shape]) -> tuple[int, int, float, str]:
    pod, shape = shaped
    created_at = pod.metadata.creation_timestamp
    return (
        -shape.requests.get(CPU, ZERO).nano,
        -shape.requests.get(MEMORY, ZERO).nano,
        created_at.timestamp() if created_at else 0.0,
        pod.metadata.uid,
    )
