"""Laws of placing pods, held by both solvers on random clusters."""

from collections import Counter
from dataclasses import replace
from random import Random

import msgspec
import pytest

from dovetail.model.pod import Affinity, Container, Pod, ResourceRequirements
from dovetail.model.taints import Toleration
from properties.agreement import Outcome, by_reference, by_solver, case_of
from properties.final_state import violations
from properties.shrinking import changed_spec
from reference.clusters import Case

SEEDS = 300
CHUNKS = 3
both_solvers = pytest.mark.parametrize("placed", [by_reference, by_solver], ids=["reference", "solver"])
in_chunks = pytest.mark.parametrize("chunk", range(CHUNKS))


def seeds(chunk: int) -> range:
    """Other clusters than those on which the solvers are compared first."""
    return range(100_000 + chunk, 100_000 + SEEDS, CHUNKS)


@both_solvers
@in_chunks
def test_every_pod_is_placed_once_or_refused(placed, chunk):
    for seed in seeds(chunk):
        case = case_of(seed)
        assert placed(case).place_by_pod.keys() == {pod.key for pod in case.pods}, seed


@both_solvers
@in_chunks
def test_no_answer_breaks_a_hard_constraint(placed, chunk):
    for seed in seeds(chunk):
        case = case_of(seed)
        assert violations(case, placed(case)) == [], seed


@both_solvers
@in_chunks
def test_the_order_in_which_things_are_listed_does_not_matter(placed, chunk):
    for seed in seeds(chunk):
        case = case_of(seed)
        assert placed(_shuffled(case, seed)) == placed(case), seed


def _shuffled(case: Case, seed: int) -> Case:
    random, snapshot = Random(seed), case.snapshot  # noqa: S311 - reproducible
    pods, nodes = list(case.pods), list(snapshot.nodes)
    random.shuffle(pods)
    random.shuffle(nodes)
    return replace(case, pods=tuple(pods), snapshot=replace(snapshot, nodes=tuple(nodes)))


@both_solvers
@in_chunks
def test_equal_pods_are_interchangeable(placed, chunk):
    """Give the identities of equal pods to one another: each place takes as many pods of each kind as before."""
    for seed in seeds(chunk):
        case = case_of(seed)
        swapped = _identities_swapped(case)
        assert _kinds_by_place(swapped, placed(swapped)) == _kinds_by_place(case, placed(case)), seed


def _identities_swapped(case: Case) -> Case:
    groups: dict[bytes, list[Pod]] = {}
    for pod in case.pods:
        if not pod.node_name and not any(volume.ephemeral is not None for volume in pod.spec.volumes):
            groups.setdefault(_kind(pod), []).append(pod)
    identity = {}
    for group in groups.values():
        turned = [*group[1:], group[0]]
        identity |= {pod.key: other.metadata for pod, other in zip(group, turned, strict=True)}
    return replace(case, pods=tuple(_with_identity(pod, identity.get(pod.key, pod.metadata)) for pod in case.pods))


def _with_identity(pod: Pod, other) -> Pod:
    metadata = msgspec.structs.replace(pod.metadata, uid=other.uid, creation_timestamp=other.creation_timestamp)
    return msgspec.structs.replace(pod, metadata=metadata)


def _kind(pod: Pod) -> bytes:
    return msgspec.json.encode((pod.metadata.namespace, pod.metadata.labels, pod.spec), enc_hook=str)


def _kinds_by_place(case: Case, outcome: Outcome) -> Counter:
    return Counter((_kind(pod), outcome.place_by_pod[pod.key]) for pod in case.pods)


@both_solvers
@in_chunks
def test_a_constraint_less_never_keeps_a_single_pod_out(placed, chunk):
    for seed in seeds(chunk):
        case = case_of(seed)
        for pod in case.pods[:2]:
            alone = replace(case, pods=(pod,))
            if placed(alone).place_by_pod[pod.key] == "refused":
                continue
            for freed, simpler in _with_one_constraint_less(pod):
                answer = placed(replace(alone, pods=(simpler,)))
                assert answer.place_by_pod[pod.key] != "refused", f"seed {seed}: {pod.key} without {freed}"


def _with_one_constraint_less(pod: Pod) -> list[tuple[str, Pod]]:
    """Rules about pods go as a whole: with one affinity term less, more pods match, and then the rest binds more.

    What decides which nodes take part in a spread goes only where there is none: with more nodes to count, the
    emptiest of them may set a smaller minimum.
    """
    spec, affinity = pod.spec, pod.spec.affinity or Affinity()
    simpler = [
        ("spread", changed_spec(pod, topology_spread_constraints=())),
        ("affinity to pods", changed_spec(pod, affinity=msgspec.structs.replace(affinity, pod_affinity=None))),
        ("anti-affinity", changed_spec(pod, affinity=msgspec.structs.replace(affinity, pod_anti_affinity=None))),
        ("volumes", changed_spec(pod, volumes=())),
        ("requests", changed_spec(pod, containers=(_bare(spec.containers),), init_containers=(), resources=None)),
        ("ports", changed_spec(pod, containers=tuple(_portless(each) for each in spec.containers))),
    ]
    if not spec.topology_spread_constraints:
        simpler += [
            ("selector", changed_spec(pod, node_selector={})),
            ("node affinity", changed_spec(pod, affinity=msgspec.structs.replace(affinity, node_affinity=None))),
            ("taints", changed_spec(pod, tolerations=(Toleration(operator="Exists"),))),
        ]
    return simpler


def _bare(containers: tuple[Container, ...]) -> Container:
    return msgspec.structs.replace(containers[0], resources=ResourceRequirements())


def _portless(container: Container) -> Container:
    return msgspec.structs.replace(container, ports=())
