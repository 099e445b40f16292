"""Evictions: what the PodDisruptionBudgets allow, one at a time."""

import pytest

from contract.environment import Environment
from dovetail.model.cluster_objects import PodDisruptionBudgetStatus
from dovetail.model.kinds import POD, POD_DISRUPTION_BUDGET
from dovetail.model.kube_object import ObjectMeta
from dovetail.model.pod import Pod
from dovetail.ports.cluster import Deletion, ListOptions, Patch
from dovetail.ports.errors import Conflict, EvictionBlocked, EvictionImpossible, NotFound

STAYS = {"pod-delete.stage.kwok.x-k8s.io/delay": "24h"}


async def budget_status(env: Environment, name: str, **wanted: int) -> PodDisruptionBudgetStatus:
    """The budget's status, once the controller has counted so."""

    async def counted() -> PodDisruptionBudgetStatus | None:
        budget = await env.cluster.get(POD_DISRUPTION_BUDGET, env.key(name))
        observed = budget.status.observed_generation == budget.metadata.generation
        fits = all(getattr(budget.status, field) == value for field, value in wanted.items())
        return budget.status if observed and fits else None

    found: PodDisruptionBudgetStatus = await env.eventually(counted)
    return found


async def running_pods(env: Environment, app: str, count: int) -> list[Pod]:
    """The pods of a Deployment, once all of them run."""

    async def up() -> list[Pod] | None:
        found = await env.cluster.list(POD, ListOptions(namespace=env.namespace, label_selector=f"app={app}"))
        pods = [pod for pod in found.items if pod.ready and not pod.deleting]
        return pods if len(pods) == count else None

    found: list[Pod] = await env.eventually(up)
    return found


async def gone(env: Environment, pod: Pod) -> None:
    """Wait for the pod to be gone."""

    async def missing() -> bool:
        try:
            return (await env.cluster.get(POD, pod.key)).metadata.uid != pod.metadata.uid
        except NotFound:
            return True

    await env.eventually(missing)


async def without_a_budget_a_pod_is_evicted_gracefully(env: Environment) -> None:
    node = await env.make_ready_node()
    pod = await env.running(await env.make_pod(on=node))
    await env.cluster.evict(pod)
    leaving = await env.cluster.get(POD, pod.key)
    assert leaving.deleting
    assert any(condition.type == "DisruptionTarget" for condition in leaving.status.conditions)
    await gone(env, pod)


async def a_budget_without_room_blocks(env: Environment) -> None:
    node = await env.make_ready_node()
    pod = await env.running(await env.make_pod(on=node, labels={"app": "only"}))
    budget = await env.make_budget({"app": "only"}, minAvailable=1)
    await budget_status(env, budget, current_healthy=1, disruptions_allowed=0)
    with pytest.raises(EvictionBlocked):
        await env.cluster.evict(pod)
    assert not (await env.cluster.get(POD, pod.key)).deleting


async def an_allowed_eviction_is_counted_at_once(env: Environment) -> None:
    node = await env.make_ready_node()
    app = await env.make_deployment(3, on=node, annotations=STAYS)
    first, second, _ = await running_pods(env, app, 3)
    budget = await env.make_budget({"app": app}, maxUnavailable=1)
    await budget_status(env, budget, current_healthy=3, disruptions_allowed=1)
    await env.cluster.evict(first)
    with pytest.raises(EvictionBlocked):
        await env.cluster.evict(second)
    await env.cluster.evict(first)  # on its way out already: nothing to count again
    await env.cluster.delete(POD, first.key, Deletion(grace_seconds=0))
    await running_pods(env, app, 3)
    await budget_status(env, budget, current_healthy=3, disruptions_allowed=1)
    await env.cluster.evict(second)


async def two_budgets_make_eviction_impossible(env: Environment) -> None:
    node = await env.make_ready_node()
    pod = await env.running(await env.make_pod(on=node, labels={"app": "two"}))
    for _ in range(2):
        budget = await env.make_budget({"app": "two"}, minAvailable=0)
        await budget_status(env, budget, current_healthy=1)
    with pytest.raises(EvictionImpossible):
        await env.cluster.evict(pod)


async def evicting_a_missing_pod_or_its_namesake_fails(env: Environment) -> None:
    node = await env.make_ready_node()
    pod = await env.running(await env.make_pod(on=node))
    uid = "0b4d7a3e-0000-4000-8000-000000000000"
    with pytest.raises(Conflict):
        await env.cluster.evict(Pod(metadata=ObjectMeta(name=pod.name, namespace=env.namespace, uid=uid)))
    with pytest.raises(NotFound):
        await env.cluster.evict(Pod(metadata=ObjectMeta(name="missing", namespace=env.namespace, uid=uid)))
    assert not (await env.cluster.get(POD, pod.key)).deleting


async def a_pending_pod_is_evicted_past_its_budget(env: Environment) -> None:
    pod = await env.make_pod(labels={"app": "waits"}, spec={"schedulerName": "nobody"})
    budget = await env.make_budget({"app": "waits"}, minAvailable=1)
    await budget_status(env, budget, disruptions_allowed=0)
    await env.cluster.evict(pod)
    await gone(env, pod)


async def an_unready_pod_is_guarded_unless_the_budget_says_otherwise(env: Environment) -> None:
    node = await env.make_ready_node()
    pod = await env.running(await env.make_pod(on=node, labels={"app": "sick"}))
    budget = await env.make_budget({"app": "sick"}, minAvailable=1)
    sick = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    await env.cluster.patch(POD, pod.key, Patch(sick, subresource="status"))
    await budget_status(env, budget, current_healthy=0)
    with pytest.raises(EvictionBlocked):
        await env.cluster.evict(pod)
    policy = {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}
    await env.cluster.patch(POD_DISRUPTION_BUDGET, env.key(budget), Patch(policy))
    await budget_status(env, budget, current_healthy=0)
    await env.cluster.evict(pod)


async def a_budget_counts_what_its_workload_asks_for(env: Environment) -> None:
    node = await env.make_ready_node()
    app = await env.make_deployment(5, on=node)
    await running_pods(env, app, 5)
    share = await env.make_budget({"app": app}, maxUnavailable="50%")
    await budget_status(env, share, expected_pods=5, desired_healthy=2, current_healthy=5, disruptions_allowed=3)
    least = await env.make_budget({"app": app}, minAvailable="50%")
    await budget_status(env, least, expected_pods=5, desired_healthy=3, current_healthy=5, disruptions_allowed=2)
    lonely = await env.make_budget({"app": "nobody"}, minAvailable=0)
    await budget_status(env, lonely, expected_pods=0, current_healthy=0, disruptions_allowed=0)


CASES = (
    without_a_budget_a_pod_is_evicted_gracefully,
    a_budget_without_room_blocks,
    an_allowed_eviction_is_counted_at_once,
    two_budgets_make_eviction_impossible,
    evicting_a_missing_pod_or_its_namesake_fails,
    a_pending_pod_is_evicted_past_its_budget,
    an_unready_pod_is_guarded_unless_the_budget_says_otherwise,
    a_budget_counts_what_its_workload_asks_for,
)
