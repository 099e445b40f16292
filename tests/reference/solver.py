"""The slow solver: one pod at a time, everything counted anew at every step. The page it follows is the documentation
of scheduling; each rule is in the module named after it, in the words of the page.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dovetail.model.kube_object import Key
from dovetail.model.nodepool import NodePool
from dovetail.model.pod import Pod
from dovetail.model.requirements import Requirements
from dovetail.model.resources import CPU, MEMORY
from dovetail.model.snapshot import Snapshot
from reference.amounts import requested
from reference.drafts import draft_with, empty_draft
from reference.market import largest_capacity
from reference.rooms import room_accepts
from reference.run import Draft, Run, open_run
from reference.wish import Wish, preference_levels


@dataclass(frozen=True)
class DraftAnswer:
    """A node to buy."""

    pool: str
    pods: tuple[Key, ...]
    requirements: Requirements
    types: frozenset[str]


@dataclass(frozen=True)
class Answer:
    """Where the pods would run."""

    node_by_pod: dict[Key, str]
    drafts: tuple[DraftAnswer, ...]
    refused: frozenset[Key]


def solve(
    snapshot: Snapshot,
    pods: Sequence[Pod],
    pools: Sequence[NodePool],
    *,
    respect_preferences: bool = True,
    standing: bool = False,
) -> Answer:
    """Where would these pods run? NodePools are given in the order they are tried."""
    run = open_run(snapshot, pods, pools, standing=standing)
    return finish(run, pods, respect_preferences=respect_preferences)


def finish(run: Run, pods: Sequence[Pod], *, respect_preferences: bool = True) -> Answer:
    """Round after round over the pods without a place, until a whole round placed none."""
    waiting = sorted(pods, key=place_in_queue)
    while True:
        left = [pod for pod in waiting if not place(run, pod, respect_preferences=respect_preferences)]
        if len(left) == len(waiting):
            break
        waiting = left
    return Answer(
        node_by_pod={pod.key: room.name for room in run.rooms for pod in room.placed},
        drafts=tuple(_answer(draft) for draft in run.drafts),
        refused=frozenset(pod.key for pod in waiting),
    )


def place_in_queue(pod: Pod) -> tuple:
    """Higher priority, larger cpu, larger memory, earlier creation, smaller uid."""
    needed, created = requested(pod.spec), pod.metadata.creation_timestamp
    assert created is not None, "a pod from the API server has one"
    return (-pod.spec.priority, -needed.get(CPU, 0), -needed.get(MEMORY, 0), created, pod.metadata.uid)


def place(run: Run, pod: Pod, *, respect_preferences: bool) -> bool:
    """Try every bin at every step of the ladder; a pod that is tried again starts from the top.

    What a run may not buy does not make a pod give up what it prefers: it has no place then.
    """
    steps = [*preference_levels(pod, respect_preferences=respect_preferences, soft_taints_exist=run.soft_taints_exist)]
    for wish in steps:
        if _in_room(run, wish) or _in_draft(run, wish) or _in_new_draft(run, wish):
            return True
        bounded = run.price_ceiling is not None or run.max_drafts is not None
        if bounded and wish is not steps[-1] and _would_take_a_new_node(run, wish):
            return False
    return False


def _would_take_a_new_node(run: Run, wish: Wish) -> bool:
    """Whether one of any price would take the pod; what this run has spent so far does not count."""
    free = replace(run, price_ceiling=None, max_drafts=None, spent=[{} for _ in run.drafts])
    drafts = (empty_draft(free, pool) for pool in run.pools)
    return any(draft is not None and draft_with(free, draft, wish) is not None for draft in drafts)


def _in_room(run: Run, wish: Wish) -> bool:
    for room in run.rooms:
        if room_accepts(run, room, wish):
            room.placed.append(wish.pod)
            return True
    return False


def _in_draft(run: Run, wish: Wish) -> bool:
    for draft in sorted(run.drafts, key=lambda each: (len(each.pods), each.number)):
        accepted = draft_with(run, draft, wish)
        if accepted is not None:
            run.drafts[draft.number] = accepted
            return True
    return False


def _in_new_draft(run: Run, wish: Wish) -> bool:
    for pool in run.pools:
        draft = empty_draft(run, pool)
        accepted = draft_with(run, draft, wish) if draft is not None else None
        if accepted is not None:
            run.drafts.append(accepted)
            run.spent.append(largest_capacity(accepted.types))
            return True
    return False


def _answer(draft: Draft) -> DraftAnswer:
    return DraftAnswer(
        pool=draft.pool.name,
        pods=tuple(pod.key for pod in draft.pods),
        requirements=draft.requirements,
        types=frozenset(each.name for each in draft.types),
    )
