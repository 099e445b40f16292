"""What Prometheus is told of lived stories, and that the number of series does not grow with the cluster."""

import asyncio
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from dovetail.model.kinds import NODE_CLAIM
from dovetail.model.labels import DO_NOT_DISRUPT, INSTANCE_TYPE
from stories import ACTING, FREELY, ON_DEMAND, budget, deployment, live, node_class, node_pool, pool

POOL = {"nodepool": "default"}


def figures(life):
    """Every sample as (name, labels) -> value."""
    families = text_string_to_metric_families(life.parts.metrics.render().decode())
    return {(each.name, frozenset(each.labels.items())): each.value for family in families for each in family.samples}


def figure(samples, name, **labels):
    """The sum of a metric over all series with these labels."""
    wanted = set(labels.items())
    return sum(value for (each, row), value in samples.items() if each == name and wanted <= set(row))


async def refreshed(life):
    await life.parts.manager.gauges.refresh()
    return figures(life)


async def scaled(life, replicas, within=900):
    life.world.apply(deployment(replicas=replicas))
    await life.until(lambda: life.running(replicas) and life.settled(), within)


def test_a_cluster_that_scales_out_and_in_is_told_in_figures():
    async def story(life):
        await scaled(life, 8)
        before = await refreshed(life)
        nodes = len(life.nodes)
        life.world.apply(deployment(replicas=0))
        await life.until(lambda: not life.nodes)
        await asyncio.sleep(305)  # savings are computed every five minutes
        return nodes, before, await refreshed(life)

    nodes, before, after = live(story, node_class(), pool(), settings=ACTING)
    assert figure(before, "karpenter_nodeclaims_created_total", reason="provisioned", **POOL) == nodes
    assert figure(before, "karpenter_nodes_created_total", **POOL) == nodes
    assert figure(before, "karpenter_pods_state", phase="Running", scheduled="true", **POOL) == 8
    assert figure(before, "karpenter_pods_startup_duration_seconds_count") == 8
    assert figure(before, "karpenter_nodes_total_pod_requests", resource_type="cpu", **POOL) == 8
    assert figure(before, "karpenter_nodepools_cost_total", **POOL) > 0
    assert figure(before, "karpenter_nodepools_allowed_disruptions", reason="Empty", **POOL) == nodes
    assert figure(before, "operator_nodeclaim_status_condition_count", type="Ready", status="True") == nodes
    assert figure(before, "karpenter_cluster_state_synced") == 1
    assert figure(before, "karpenter_cloudprovider_duration_seconds_count", method="Create") >= nodes
    assert 0 < figure(before, "karpenter_cluster_utilization_percent", resource_type="cpu") <= 100
    assert figure(after, "karpenter_nodeclaims_disrupted_total", reason="empty", termination_mode="graceful") == nodes
    assert figure(after, "karpenter_voluntary_disruption_decisions_total", decision="delete", reason="empty") >= 1
    assert figure(after, "dovetail_commands_ended_total", outcome="done") >= 1
    saved = figure(after, "dovetail_disruption_saving_dollars_per_hour", reason="Empty")
    assert saved == pytest.approx(figure(before, "karpenter_nodepools_cost_total", **POOL))
    assert figure(after, "karpenter_nodepools_cost_total", **POOL) == 0
    assert figure(after, "karpenter_nodeclaims_terminated_total", **POOL) == nodes
    assert figure(after, "dovetail_metrics_rejected_total") == 0


def test_without_cluster_state_observability_no_gauge_is_about_pods_nodes_or_pools():
    async def story(life):
        await scaled(life, 2)
        return await refreshed(life), life.events("Registered")

    settings = replace(ACTING, disable_cluster_state_observability=True)
    samples, changed = live(story, node_class(), pool(), settings=settings)
    assert changed == []
    gauges = ("karpenter_pods_state", "karpenter_nodes_", "karpenter_nodepools_", "operator_", "karpenter_cluster_u")
    counters = ("_total", "_bucket", "_sum", "_count", "_created")
    assert [name for name, _ in samples if name.startswith(gauges) and not name.endswith(counters)] == []
    assert figure(samples, "karpenter_nodeclaims_created_total") >= 1
    assert figure(samples, "karpenter_cluster_state_synced") == 1  # an alert needs it


def test_no_node_is_left_out_of_a_pass_and_refusals_are_told_by_code():
    async def story(life):
        await scaled(life, 8)
        await asyncio.sleep(60)
        return len(life.nodes), await refreshed(life)

    quiet = pool(consolidateAfter="Never")
    nodes, samples = live(story, node_class(), quiet, settings=ACTING)
    assert figure(samples, "dovetail_disruption_unevaluated_nodes") == 0
    assert figure(samples, "dovetail_disruption_refusals", method="single-node", code="ConsolidationDisabled") == nodes
    assert figure(samples, "dovetail_disruption_refusals", method="drift") == nodes


def test_a_command_that_is_taken_back_is_counted():
    async def story(life):
        await scaled(life, 2)
        changed = {"labels": {"generation": "second"}}
        life.world.apply(node_pool(template={"requirements": ON_DEMAND}, template_metadata=changed, disruption=FREELY))
        await life.until(lambda: any(claim.has("DisruptionReason") for claim in life.claims))
        running = await refreshed(life)
        await life.until(lambda: any(not claim.has("Initialized") for claim in life.claims))
        replacement = next(claim for claim in life.claims if not claim.has("Initialized"))
        await life.world.delete(NODE_CLAIM, replacement.key)
        await life.until(lambda: not any(claim.has("DisruptionReason") for claim in life.claims))
        return running, await refreshed(life)

    running, after = live(story, node_class(), pool(), settings=ACTING)
    assert figure(after, "dovetail_commands_ended_total", reason="Drifted", outcome="rolled back") == 1
    assert figure(after, "karpenter_voluntary_disruption_queue_failures_total", reason="drifted") == 1
    assert figure(after, "dovetail_commands_running") == 0
    assert figure(running, "dovetail_commands_running", reason="Drifted") == 1
    assert figure(running, "karpenter_nodeclaims_created_total", reason="drifted") == 1


def test_per_pool_the_number_of_series_does_not_grow_with_nodes_or_pods():
    def series(replicas, cpu):
        async def story(life):
            life.world.apply(deployment(replicas=replicas, cpu=cpu))
            await life.until(lambda: life.running(replicas) and life.settled())
            await asyncio.sleep(30)
            return len(life.nodes), set(await refreshed(life))

        one_size = [*ON_DEMAND, {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [SIZE]}]
        settings = replace(ACTING, node_metrics="pool")
        return live(
            story, node_class(), node_pool(template={"requirements": one_size}, disruption=FREELY), settings=settings
        )

    few, small = series(3, "1500m")
    many, large = series(24, "1500m")
    assert many > 3 * few
    assert len(large) < 1.2 * len(small)
    assert len(large) < 2100


SIZE = "c-2x-amd64-linux"


def test_each_node_is_told_apart_only_where_that_was_asked_for():
    def named(wanted):
        async def story(life):
            await scaled(life, 8)
            samples = await refreshed(life)
            found = {dict(row).get("node_name", "") for name, row in samples if name == "karpenter_nodes_allocatable"}
            return found, {node.name for node in life.nodes}

        return live(story, node_class(), pool(), settings=replace(ACTING, node_metrics=wanted))

    assert named("pool")[0] == {""}
    assert named("off")[0] == set()
    told, there = named("node")
    assert told == there


def test_instance_types_are_told_as_far_as_nodes_are_of_them_or_all_of_them():
    def told(wanted):
        async def story(life):
            await scaled(life, 2)
            offered = await life.parts.provider.instance_types(life.parts.manager.state.pool("default"))
            return await refreshed(life), {node.metadata.labels[INSTANCE_TYPE] for node in life.nodes}, offered

        settings = replace(ACTING, instance_type_metrics=wanted)
        samples, used, offered = live(story, node_class(), pool(), settings=settings)
        named = {dict(row)["instance_type"] for name, row in samples if name == PRICE}
        return samples, named, used, {each.name: each for each in offered}

    samples, named, used, offered = told("used")
    assert named == used
    mine = offered[min(used)]
    bought = {"instance_type": mine.name, "capacity_type": "on-demand"}
    offering = next(each for each in mine.offerings if each.capacity_type == "on-demand")
    assert figure(samples, PRICE, zone=offering.zone, **bought) == offering.price
    assert (
        figure(samples, "karpenter_cloudprovider_instance_type_offering_available", zone=offering.zone, **bought) == 1
    )
    cores = figure(samples, "karpenter_cloudprovider_instance_type_cpu_cores", instance_type=mine.name)
    assert cores == mine.capacity["cpu"].units
    assert told("off")[1] == set()
    assert told("all")[1] == set(offered)


PRICE = "karpenter_cloudprovider_instance_type_offering_price_estimate"


def test_what_is_over_is_not_remembered():
    async def story(life):
        await scaled(life, 8)
        life.world.apply(deployment(replicas=0))
        await life.until(lambda: not life.nodes and not life.pods)
        await asyncio.sleep(60)
        manager = life.parts.manager
        queue, seen = manager.disruption_queue, manager.provisioner._context.pod_clocks
        return queue._reported, queue._planned_claims, seen, manager.ledger

    reported, planned, seen, ledger = live(story, node_class(), pool(), settings=ACTING)
    assert not reported
    assert not planned
    assert not seen
    assert not ledger._context.removal_reasons
    assert not ledger._recorded_removals
    assert not ledger._pods_to_reschedule
    assert not ledger._nodes_by_uid


def test_protection_for_a_time_is_told_by_how_it_protects():
    def annotated(name, value):
        manifest = deployment(name, 1, cpu="100m")
        manifest["spec"]["template"]["metadata"]["annotations"] = {DO_NOT_DISRUPT: value}
        return manifest

    def protected(samples, protection):
        return figure(samples, "dovetail_pods_do_not_disrupt", protection=protection, **POOL)

    async def story(life):
        await life.until(lambda: life.running(5) and life.settled())
        return await refreshed(life), await asyncio.sleep(3600), await refreshed(life)

    pods = [annotated(f"pod-{at}", value) for at, value in enumerate(("true", "2h", "30m", "soon", "false"))]
    before, _, after = live(story, node_class(), pool(consolidationGracePeriod="30m"), *pods)
    kinds = ("permanent", "grace_period", "elapsed", "invalid")
    assert [protected(before, kind) for kind in kinds] == [1, 2, 0, 1]
    assert [protected(after, kind) for kind in kinds] == [1, 1, 1, 1]
    left = "dovetail_pods_do_not_disrupt_remaining_seconds"
    assert 7000 < figure(before, left, **POOL) <= 7200
    assert 3400 < figure(after, left, **POOL) <= 3600
    inside = "dovetail_nodepools_nodes_in_consolidation_grace_period"
    assert (figure(before, inside, **POOL), figure(after, inside, **POOL)) == (1, 0)


def test_objects_that_cannot_be_read_are_counted_by_kind():
    async def story(life):
        life.world.apply_unchecked({**budget(), "spec": {"selector": 5}})
        await asyncio.sleep(5)
        return await refreshed(life)

    assert figure(live(story), "dovetail_unreadable_objects", kind="PodDisruptionBudget") == 1
