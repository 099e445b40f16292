"""Hold the solver against the reference solver on one case, and tell the story when they differ."""

import os
from dataclasses import dataclass, replace

import msgspec

from dovetail.core.scheduling.removal_simulation import simulate_removals as fast_sweep
from dovetail.core.scheduling.solver import solve as fast_solve
from dovetail.model.kube_object import Key
from properties.shrinking import shrink
from reference.clusters import Case, random_cluster
from reference.solver import DraftAnswer, solve
from reference.sweep import SweepAnswer, removal_simulation

CASES = int(os.environ.get("DOVETAIL_AGREEMENT", "2000"))
CHUNKS = 20
LARGE_EVERY = 10  # of so many cases, one is large


@dataclass(frozen=True)
class Outcome:
    """An answer of either solver, in words that can be compared: for each pod where it goes, and every draft."""

    place_by_pod: dict[Key, str]
    drafts: tuple[DraftAnswer, ...]


def by_reference(case: Case) -> Outcome:
    answer = solve(
        case.snapshot,
        case.pods,
        case.pools,
        respect_preferences=case.respect_preferences,
        standing=case.standing,
    )
    return _outcome(answer.node_by_pod, answer.drafts, answer.refused)


def by_solver(case: Case) -> Outcome:
    placement = fast_solve(
        case.snapshot,
        case.pods,
        case.pools,
        respect_preferences=case.respect_preferences,
        include_deleting=case.standing,
    )
    drafts = tuple(_draft(each) for each in placement.drafts)
    return _outcome(dict(placement.node_by_pod), drafts, frozenset(placement.refusals))


def sweep_by_reference(case: Case) -> dict[str, SweepAnswer]:
    return removal_simulation(case.snapshot, case.pools)


def sweep_by_solver(case: Case) -> dict[str, SweepAnswer]:
    return {
        name: SweepAnswer(str(removal.kind), _draft(removal.draft) if removal.draft is not None else None)
        for name, removal in fast_sweep(case.snapshot, case.pools).items()
    }


def _draft(draft) -> DraftAnswer:
    return DraftAnswer(draft.pool_name, tuple(draft.pod_keys), draft.requirements, frozenset(draft.type_names))


def _outcome(existing_nodes: dict[Key, str], drafts: tuple[DraftAnswer, ...], refused: frozenset[Key]) -> Outcome:
    places = [*((key, f"room {name}") for key, name in existing_nodes.items()), *((key, "refused") for key in refused)]
    places += [(key, f"draft {number} of {draft.pool}") for number, draft in enumerate(drafts) for key in draft.pods]
    assert len(places) == len(dict(places)), f"a pod is placed twice: {sorted(places)}"
    return Outcome(dict(places), drafts)


def cases_of(chunk: int) -> list[int]:
    """The seeds of one chunk of the whole."""
    return list(range(chunk, CASES, CHUNKS))


def case_of(seed: int) -> Case:
    return random_cluster(seed, size="large" if seed % LARGE_EVERY == 0 else "small")


def assert_agreement(seed: int) -> None:
    case = case_of(seed)
    if _placing_differs(case):
        raise AssertionError(f"seed {seed}\n{story(shrink(case, _placing_differs))}")


def assert_agreement_as_it_stands(seed: int) -> None:
    """The same question about the pods that have no node, while those that are going are still there."""
    case = case_of(seed)
    case = replace(case, pods=tuple(pod for pod in case.pods if not pod.node_name), standing=True)
    if _placing_differs(case):
        raise AssertionError(f"seed {seed}\n{story(shrink(case, _placing_differs))}")


def assert_sweeps_agree(seed: int) -> None:
    case = case_of(seed)
    if _sweep_differs(case):
        raise AssertionError(f"seed {seed}\n{sweep_story(shrink(case, _sweep_differs))}")


def _placing_differs(case: Case) -> bool:
    return by_reference(case) != by_solver(case)


def _sweep_differs(case: Case) -> bool:
    return sweep_by_reference(case) != sweep_by_solver(case)


def story(case: Case) -> str:
    """What each says of every pod and draft they disagree on, and the whole of the small case."""
    wanted, found = by_reference(case), by_solver(case)
    lines = ["the reference solver and the solver disagree"]
    for key in sorted(wanted.place_by_pod.keys() | found.place_by_pod.keys()):
        theirs, ours = wanted.place_by_pod.get(key), found.place_by_pod.get(key)
        lines.append(f"  pod {key}: reference says {theirs}" + ("" if theirs == ours else f", solver says {ours}"))
    for number in range(max(len(wanted.drafts), len(found.drafts))):
        lines += _draft_story(number, wanted.drafts[number : number + 1], found.drafts[number : number + 1])
    return "\n".join([*lines, *_cluster_story(case)])


def _draft_story(number: int, wanted: tuple[DraftAnswer, ...], found: tuple[DraftAnswer, ...]) -> list[str]:
    return [
        f"  draft {number}: {who} says {draft.pool} {sorted(draft.types)} with {draft.requirements}"
        for who, drafts in (("reference", wanted), ("solver", found))
        for draft in drafts
        if wanted != found
    ]


def sweep_story(case: Case) -> str:
    wanted, found = sweep_by_reference(case), sweep_by_solver(case)
    differing = [name for name in sorted(wanted.keys() | found.keys()) if wanted.get(name) != found.get(name)]
    lines = [f"  node {name}: reference says {wanted.get(name)}, solver says {found.get(name)}" for name in differing]
    return "\n".join([*lines, *_cluster_story(case)])


def _cluster_story(case: Case) -> list[str]:
    snapshot = case.snapshot
    lines = [f"  preferences {'respected' if case.respect_preferences else 'ignored'}"]
    lines += ["  nodes on their way out count while they stand"] if case.standing else []
    lines += [f"  asked: {brief(pod)}" for pod in case.pods]
    for node in snapshot.nodes:
        lines.append(f"  node {node.name}: node {brief(node.node)} claim {brief(node.claim)}")
        lines += [f"    holds {brief(pod)}" for pod in node.pods]
    lines += [f"  nominated: {brief(pod)}" for pod in snapshot.unbound_pods if pod.status.nominated_node_name]
    for pool in case.pools:
        lines.append(f"  pool {pool.name}: {brief(pool.spec)}")
        for each in snapshot.catalogs[pool.name]:
            sold = [(o.zone, o.capacity_type, o.price, o.available) for o in each.offerings]
            lines.append(f"    type {each.name}: {each.requirements}; has {brief(each.allocatable)}; sold {sold}")
    lines += [f"  daemon set {each.name}: {brief(each.spec.template.spec)}" for each in snapshot.daemon_sets]
    if snapshot.storage.claims:
        lines += [f"  storage: {brief(each)}" for each in _mentioned_storage(case)]
    return lines


def brief(value: object) -> str:
    """As on the wire, without what is not set."""
    return msgspec.json.encode(value, enc_hook=str).decode()


def _mentioned_storage(case: Case) -> list[object]:
    """Only what the pods of the case name."""
    storage = case.snapshot.storage
    pods = [*case.pods, *(pod for node in case.snapshot.nodes for pod in node.pods)]
    keys = {
        Key(pod.metadata.namespace, volume.persistent_volume_claim.claim_name)
        for pod in pods
        for volume in pod.spec.volumes
        if volume.persistent_volume_claim is not None
    }
    claims = [storage.claims[key] for key in sorted(keys) if key in storage.claims]
    volumes = [storage.volumes.get(each.spec.volume_name) for each in claims]
    return [*claims, *volumes, *storage.classes.values(), storage.attach_limits]
