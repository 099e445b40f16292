"""Metrics about pods that wait: since when, for which zone, and from when a simulation found a place for them."""

import asyncio

from prometheus_client.parser import text_string_to_metric_families

from stories import ACTING, deployment, live, node_class, pool

ZONE = "topology.kubernetes.io/zone"


async def figures(life, name):
    """The series of a metric, by the values of its labels in order of their names."""
    await life.parts.manager.gauges.refresh()
    families = text_string_to_metric_families(life.parts.metrics.render().decode())
    samples = [each for family in families for each in family.samples if each.name == name]
    return {tuple(value for _, value in sorted(each.labels.items())): each.value for each in samples}


def test_clocks_of_provisioning_start_when_a_simulation_finds_a_place():
    async def story(life):
        life.world.apply(deployment("impossible", 1, cpu="100000"))
        life.world.apply(deployment("web", 2))
        await life.until(lambda: life.claims, within=60)
        await asyncio.sleep(1)
        names = {pod.name for pod in life.pods if pod.name.startswith("web")}
        waiting = await figures(life, "karpenter_pods_provisioning_unbound_time_seconds")
        assert {name for name, _ in waiting} == names  # not the one without a place
        unbound = await figures(life, "karpenter_pods_unbound_time_seconds")
        assert {name for name, _ in unbound} == {pod.name for pod in life.pods}
        assert await figures(life, "karpenter_pods_provisioning_scheduling_undecided_time_seconds") == {}
        await life.until(lambda: sum(pod.status.phase == "Running" for pod in life.pods) == 2)
        assert await figures(life, "karpenter_pods_provisioning_unbound_time_seconds") == {}
        assert await figures(life, "karpenter_pods_provisioning_bound_duration_seconds_count") == {(): 2}
        assert await figures(life, "karpenter_pods_provisioning_startup_duration_seconds_count") == {(): 2}
        assert await figures(life, "karpenter_pods_scheduling_decision_duration_seconds_count") == {(): 3}
        took = await figures(life, "karpenter_pods_startup_duration_seconds")
        assert 0 < took[("0",)] <= took[("0.5",)] <= took[("1",)] < 300
        (clock,) = life.parts.manager.provisioner._context.pod_clocks
        assert clock.name.startswith("impossible")

    live(story, node_class(nodeRegistrationDelay="60s"), pool(), settings=ACTING)


def test_pending_pods_are_counted_by_the_zone_they_need():
    async def story(life):
        zones = sorted({offering.zone for each in await types(life) for offering in each.offerings})
        life.world.apply(deployment("anywhere", 3))
        life.world.apply(deployment("there", 2, nodeSelector={ZONE: zones[0]}))
        life.world.apply(deployment("nowhere", 1, nodeSelector={ZONE: "atlantis"}))
        await life.until(lambda: life.claims, within=60)
        found = await figures(life, "karpenter_scheduler_pending_pods_by_effective_zone_count")
        assert found == {("provisioner", "flexible"): 3, ("provisioner", zones[0]): 2, ("provisioner", "none"): 1}
        assert await figures(life, "karpenter_scheduler_unschedulable_pods_count") == {("provisioner",): 1}

    async def types(life):
        await asyncio.sleep(1)
        return await life.parts.provider.instance_types(life.parts.manager.state.pool("default"))

    live(story, node_class(), pool(), settings=ACTING)
