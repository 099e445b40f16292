"""The arithmetic of disruption budgets, and its promise: what is allowed never breaks the budget."""

from hypothesis import given
from hypothesis import strategies as st

from dovetail.model.cluster_objects import PodDisruptionBudgetSpec
from dovetail.sim.kubernetes.pdb_controller import BudgetState, count, scaled

AMOUNTS = st.integers(0, 50) | st.integers(0, 100).map("{}%".format)
SPECS = st.builds(PodDisruptionBudgetSpec, min_available=AMOUNTS) | st.builds(
    PodDisruptionBudgetSpec, max_unavailable=AMOUNTS
)


def test_percentages_round_up():
    assert [scaled("50%", total) for total in (0, 1, 2, 5)] == [0, 1, 1, 3]
    assert scaled(7, 3) == 7


def test_a_percentage_refers_to_desired_replicas_not_to_existing_pods():
    counted = count(PodDisruptionBudgetSpec(min_available="50%"), pods=6, scale=10, healthy=6)
    assert (counted.expected, counted.desired, counted.allowed) == (10, 5, 1)


def test_an_absolute_minimum_counts_existing_pods():
    counted = count(PodDisruptionBudgetSpec(min_available=2), pods=3, scale=None, healthy=3)
    assert (counted.expected, counted.desired, counted.allowed) == (3, 2, 1)


def test_owners_without_replicas_allow_no_disruption():
    counted = count(PodDisruptionBudgetSpec(max_unavailable=1), pods=3, scale=None, healthy=3)
    assert counted.allowed == 0


@given(SPECS, st.integers(0, 40), st.data())
def test_allowed_disruptions_leave_the_desired_healthy_pods(spec, scale, data):
    healthy = data.draw(st.integers(0, scale))
    counted = count(spec, pods=scale, scale=scale, healthy=healthy)
    assert 0 <= counted.allowed <= healthy
    assert counted.allowed == 0 or healthy - counted.allowed >= counted.desired


@given(SPECS, st.integers(1, 40), st.data())
def test_each_eviction_spends_one_and_the_last_is_refused(spec, scale, data):
    healthy = data.draw(st.integers(0, scale))
    counted = count(spec, pods=scale, scale=scale, healthy=healthy)
    evicted = 0
    while not state(counted, spent=evicted).refusal():
        evicted += 1
    assert evicted == counted.allowed


def state(counted, spent=0, policy=False):
    return BudgetState(
        generation=1,
        observed_generation=1,
        disruptions_allowed=counted.allowed - spent,
        current_healthy=counted.healthy,
        desired_healthy=counted.desired,
        always_allow_unhealthy=policy,
    )


def test_an_unready_pod_skips_the_budget_only_with_enough_healthy_pods():
    enough = count(PodDisruptionBudgetSpec(min_available=2), pods=3, scale=3, healthy=2)
    too_few = count(PodDisruptionBudgetSpec(min_available=2), pods=3, scale=3, healthy=1)
    assert state(enough).ignores(ready=False)
    assert not state(enough).ignores(ready=True)
    assert not state(too_few).ignores(ready=False)
    assert state(too_few, policy=True).ignores(ready=False)


def test_a_budget_without_current_status_blocks():
    fresh = BudgetState(2, 1, 5, 5, 0, always_allow_unhealthy=False)
    assert "still being processed" in fresh.refusal()
