"""Commands carried out on a simulated cluster: what is marked, awaited, let go and taken back."""

import asyncio
from dataclasses import replace

import pytest

from dovetail.core.merge_patches import wire
from dovetail.model.command import RECORD_ANNOTATION, REPLACES_ANNOTATION, taken_by
from dovetail.model.kinds import NODE, NODE_CLAIM, NODE_POOL
from dovetail.model.kube_object import Key
from dovetail.ports.cluster import Patch
from dovetail.sim.world import WorldOptions
from stories import GENERIC, deployment, live, node_class, node_pool

ACTING = replace(GENERIC, disruption="on")
ON_DEMAND = [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]
TAINTS = {"karpenter.sh/disrupted", "karpenter.sh/disruption"}


def pool(template_metadata=None, **disruption):
    return node_pool(
        template={"requirements": ON_DEMAND},
        template_metadata=template_metadata,
        disruption={"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}], **disruption},
    )


async def drift(life):
    patch = Patch({"spec": {"template": {"metadata": {"labels": {"team": "a"}}}}})
    await life.world.patch(NODE_POOL, Key("", "default"), patch)


def tainted(life):
    return [node for node in life.nodes if {taint.key for taint in node.spec.taints} >= TAINTS]


def marked(life):
    return [claim for claim in life.claims if RECORD_ANNOTATION in claim.metadata.annotations]


def replacements(life):
    return [claim for claim in life.claims if REPLACES_ANNOTATION in claim.metadata.annotations]


def told(life, claim, kind="DisruptionReason"):
    return any(each.type == kind and each.status == "True" for each in claim.status.conditions)


def test_a_candidate_is_tainted_while_its_replacement_launches_and_events_are_published():
    async def scenario(life):
        await life.until(lambda: life.running(3) and life.settled())
        (old,) = life.claims
        life.world.apply(node_class(nodeRegistrationDelay="60s"))
        await drift(life)
        await life.until(lambda: replacements(life), within=300)
        await asyncio.sleep(20)
        assert [node.name for node in tainted(life)] == [life.nodes[0].name]
        assert told(life, next(claim for claim in life.claims if claim.name == old.name))
        assert life.running(3), "no pod is evicted before the replacement is ready"
        await life.until(lambda: old.name not in [claim.name for claim in life.claims])
        await life.until(lambda: life.running(3) and life.settled())
        assert not tainted(life)
        assert life.events("DisruptionLaunching")
        assert life.events("DisruptionTerminating")

    live(scenario, node_class(), pool(consolidateAfter="Never"), deployment(replicas=3), settings=ACTING)


def test_each_candidate_is_deleted_once_however_late_the_watch_is(monkeypatch):
    async def scenario(life):
        await life.until(lambda: life.running(3) and life.settled())
        delete, deleted = life.world.delete, []

        async def counting(kind, key, *args):
            if kind is NODE_CLAIM:
                deleted.append(key)
            await delete(kind, key, *args)

        monkeypatch.setattr(life.world, "delete", counting)
        names = {claim.key for claim in life.claims}
        life.world.apply(deployment(replicas=0))
        await life.until(lambda: not life.claims, within=600)
        assert sorted(deleted) == sorted(names)

    slow = WorldOptions(watch_delay=3.0)
    live(scenario, node_class(), pool(), deployment(replicas=3), settings=ACTING, options=slow)


def test_a_node_that_goes_at_once_is_shut_in_one_write(monkeypatch):
    """Taints and the load balancer label are set together, so that no pod is bound while the command can be undone."""

    async def scenario(life):
        await life.until(lambda: life.running(3) and life.settled())
        patch, patched = life.world.patch, []

        async def watching(kind, key, asked):
            if kind is NODE and "spec" in asked.body:
                (claim,) = life.claims
                patched.append((sorted(asked.body["metadata"]["labels"]), taken_by(claim) is not None, claim.deleting))
            return await patch(kind, key, asked)

        monkeypatch.setattr(life.world, "patch", watching)
        life.world.apply(deployment(replicas=0))
        await life.until(lambda: not life.claims, within=600)
        assert patched == [(["node.kubernetes.io/exclude-from-external-load-balancers"], False, False)]

    live(scenario, node_class(), pool(), deployment(replicas=3), settings=ACTING)


def test_a_replacement_that_is_deleted_releases_the_candidate():
    async def scenario(life):
        await life.until(lambda: life.running(3) and life.settled())
        (old,) = life.claims
        life.world.apply(node_class(nodeRegistrationDelay="10m"))
        await drift(life)
        await life.until(lambda: tainted(life) and replacements(life), within=300)
        await life.world.delete(NODE_CLAIM, replacements(life)[0].key)
        await life.until(lambda: not tainted(life) and not marked(life), within=60)
        kept = next(claim for claim in life.claims if claim.name == old.name)
        assert not told(life, kept)
        assert life.running(3)

    live(scenario, node_class(), pool(consolidateAfter="Never"), deployment(replicas=3), settings=ACTING)


def test_nothing_is_bought_twice_for_pods_that_a_command_already_provides_for():
    async def scenario(life):
        await life.until(lambda: life.running(3) and life.settled())
        most = []

        def gone():
            most.append(len(life.claims))
            return len(most) > 600

        await drift(life)
        await life.until(gone)
        await life.until(lambda: life.running(3) and life.settled())
        assert max(most) == 2

    live(scenario, node_class(), pool(consolidateAfter="Never"), deployment(replicas=3), settings=ACTING)


def test_a_pod_that_arrives_during_a_command_lands_on_the_replacement():
    async def scenario(life):
        await life.until(lambda: life.running(3) and life.settled())
        life.world.apply(node_class(nodeRegistrationDelay="60s"))
        await drift(life)
        await life.until(lambda: replacements(life), within=300)
        names = {claim.name for claim in life.claims}
        life.world.apply(deployment("late", 1, cpu="100m", memory="100Mi"))
        await life.until(lambda: life.running(4) and len(life.nodes) == 1)
        assert {claim.name for claim in life.claims} <= names

    live(scenario, node_class(), pool(consolidateAfter="Never"), deployment(replicas=3, cpu="900m"), settings=ACTING)


@pytest.mark.parametrize("pods", [0, 2], ids=["empty", "underutilized"])
def test_nothing_is_touched_before_the_fifteen_seconds_are_over(pods):
    async def scenario(life):
        await life.until(lambda: life.running(40) and life.settled())
        loop = asyncio.get_running_loop()
        before = {claim.name for claim in life.claims}
        life.world.apply(deployment(replicas=pods))
        await life.until(lambda: len(life.pods) == pods)
        since = loop.time()
        await life.until(lambda: marked(life) or before - {claim.name for claim in life.claims})
        assert loop.time() - since >= 15

    live(scenario, node_class(), pool(), deployment(replicas=40), settings=ACTING)


def test_what_an_earlier_life_left_behind_is_removed():
    """A taint and a condition that belong to no command, as another program would leave them."""

    async def scenario(life):
        await life.until(lambda: life.running(3) and life.settled())
        (node,), (claim,) = life.nodes, life.claims
        taints = [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]
        await life.world.patch(NODE, node.key, Patch({"spec": {"taints": taints}}))
        stamp = "2026-01-01T00:00:00Z"
        left = {"type": "DisruptionReason", "status": "True", "reason": "Drifted", "lastTransitionTime": stamp}
        kept = [wire(each) for each in claim.status.conditions]
        patch = Patch({"status": {"conditions": [*kept, left]}}, subresource="status")
        await life.world.patch(NODE_CLAIM, claim.key, patch)
        assert any(told(life, each) for each in life.claims)
        await life.until(
            lambda: not any(each.spec.taints for each in life.nodes) and not any(told(life, c) for c in life.claims),
            within=120,
        )

    live(scenario, node_class(), pool(consolidateAfter="Never"), deployment(replicas=3), settings=ACTING)


def test_a_protected_template_protects_every_node_of_the_pool():
    """The example of the disruption page: do-not-disrupt in the annotations of the NodePool's template."""

    async def scenario(life):
        await life.until(lambda: life.running(10) and life.settled())
        names = sorted(node.name for node in life.nodes)
        assert all(node.metadata.annotations["karpenter.sh/do-not-disrupt"] == "true" for node in life.nodes)
        life.world.apply(deployment(replicas=0))
        await asyncio.sleep(1800)
        assert sorted(node.name for node in life.nodes) == names
        assert life.events("DisruptionBlocked")

    held = {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}
    live(scenario, node_class(), pool(held), deployment(replicas=10), settings=ACTING)


def test_a_node_bought_for_pods_that_cannot_leave_yet_is_kept_for_them():
    """A manual deletion whose drain a budget holds up for long: one node is bought and waits, empty as it is."""

    async def scenario(life):
        await life.until(lambda: life.running(3) and life.settled())
        (old,) = life.claims
        await life.world.delete(NODE_CLAIM, old.key)
        seen = set()

        def watched():
            seen.update(claim.name for claim in life.claims)
            return False

        with pytest.raises(AssertionError):
            await life.until(watched, within=1200)
        assert len(seen) == 2

    blocking = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 3},
    }
    live(scenario, node_class(), pool(), deployment(replicas=3), blocking, settings=ACTING)


def churn(**disruption):
    """How many nodes are let go in eighty minutes in which a short job comes every ten minutes."""

    async def scenario(life):
        await life.until(lambda: life.running(6) and life.settled())
        seen = {claim.name for claim in life.claims}
        for _ in range(8):
            life.world.apply(deployment("job", 1, cpu="3"))
            await asyncio.sleep(240)
            seen |= {claim.name for claim in life.claims}
            life.world.apply(deployment("job", 0, cpu="3"))
            await asyncio.sleep(360)
            seen |= {claim.name for claim in life.claims}
        return len(seen - {claim.name for claim in life.claims})

    return live(scenario, node_class(), pool(**disruption), deployment(replicas=6), settings=ACTING)


def test_the_cycle_of_consolidation_and_purchase_happens_without_a_grace_period_and_not_with_it():
    assert churn(consolidateAfter="30s") >= 6
    assert churn(consolidateAfter="30s", consolidationGracePeriod="30m") <= 1
