"""The solver against the real kube-scheduler, on random clusters.

Every pod the solver places goes to the first node that the real scheduler accepts for it, and every pod it refuses
stays pending. Deliberate differences have a test of their own each; the random clusters leave them out.
`DOVETAIL_AGREEMENT_CLUSTERS` sets how many clusters are tried.
"""

import os

import pytest

from e2e.agreement import stage
from e2e.agreement.cases import random_case
from e2e.agreement.coverage import Coverage
from e2e.agreement.differences import DIFFERENCES
from e2e.agreement.scheduler import running_scheduler
from e2e.agreement.trial import Trial
from e2e.controlplane.slate import wipe
from e2e.running import install_crds

CLUSTERS = int(os.environ.get("DOVETAIL_AGREEMENT_CLUSTERS", "60"))
FIRST_SEED = int(os.environ.get("DOVETAIL_AGREEMENT_SEED", "1"))
ENOUGH_PODS = 300
ENOUGH_CLUSTERS = 60  # fewer need not use every feature


@pytest.fixture(scope="module")
def judged(control_plane):
    """The control plane with what all cases share, and the scheduler's witness."""
    wipe(control_plane.api)
    install_crds(control_plane)
    stage.prepare(control_plane)
    with running_scheduler(control_plane) as witness:
        yield control_plane, witness


def decide(judged, case):
    control_plane, witness = judged
    try:
        stage.build(control_plane.api, case)
        return Trial(control_plane, witness, case).run()
    finally:
        stage.clear(control_plane.api)


def test_the_solver_agrees_with_the_real_scheduler(judged, tell):
    coverage, outcomes = Coverage(), []
    for seed in range(FIRST_SEED, FIRST_SEED + CLUSTERS):
        case = random_case(seed)
        outcomes.append(decide(judged, case))
        coverage.count(case)
    placed, refused = sum(each.placed for each in outcomes), sum(each.refused for each in outcomes)
    stories = [story for each in outcomes for story in each.stories]
    tell(f"{CLUSTERS} clusters, {placed} pods placed alike, {refused} refused alike\n{coverage}")
    assert not stories, "\n\n".join([f"{len(stories)} differences", *stories])
    if CLUSTERS >= ENOUGH_CLUSTERS:
        assert placed + refused >= ENOUGH_PODS
        assert not coverage.missing


@pytest.mark.parametrize("difference", DIFFERENCES, ids=str)
def test_a_known_difference_is_still_there(judged, difference):
    """Delete the row that fails here: solver and scheduler have come to agree."""
    outcome = decide(judged, difference.case)
    assert len(outcome.stories) == 1, outcome
    assert ("solver:    placed" in outcome.stories[0]) is difference.solver_places, outcome.stories[0]
