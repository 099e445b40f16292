"""Protections are read again right before a node is deleted: minutes pass while its replacement starts."""

import asyncio

import pytest

from dovetail.model.command import REPLACES_ANNOTATION
from dovetail.model.kinds import CONFIG_MAP, NODE, NODE_POOL, POD
from dovetail.model.kube_object import Key
from dovetail.ports.cluster import Patch
from stories import ACTING, budget, clean, deployment, live, node_class, pool
from watches import SilentWatches, Terminations

PROTECT = {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}
DRIFTED = {"spec": {"template": {"metadata": {"labels": {"team": "a"}}}}}
REVERTED = {"spec": {"template": {"metadata": {"labels": None}}}}
CLOSED = {"spec": {"disruption": {"budgets": [{"nodes": "0"}]}}}
QUIET = pool(consolidateAfter="Never")


async def patch_pool(life, body):
    await life.world.patch(NODE_POOL, Key("", "default"), Patch(body))


async def protect_pod(life, node):
    await life.world.patch(POD, life.pods[0].key, Patch(PROTECT))


async def protect_node(life, node):
    await life.world.patch(NODE, node.key, Patch(PROTECT))


async def add_blocking_pdb(life, node):
    life.world.apply(budget(maxUnavailable=0))


async def close_budget(life, node):
    await patch_pool(life, CLOSED)


async def revert_drift(life, node):
    await patch_pool(life, REVERTED)


EDITS = {
    "pod protected": (protect_pod, POD),
    "node protected": (protect_node, NODE),
    "PDB blocks": (add_blocking_pdb, None),
    "budget 0": (close_budget, NODE_POOL),
    "drift reverted": (revert_drift, NODE_POOL),
}


@pytest.mark.parametrize("late", [False, True], ids=["seen", "watch late"])
@pytest.mark.parametrize("edit", EDITS)
def test_a_protection_that_comes_while_the_replacement_starts_keeps_the_node_and_drops_the_replacement(
    edit, late, monkeypatch
):
    watches = SilentWatches(monkeypatch)
    act, kind = EDITS[edit]

    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        ended = Terminations(life.world)
        (node,) = life.nodes
        life.world.apply(node_class(nodeRegistrationDelay="60s"))
        await patch_pool(life, DRIFTED)
        await life.until(lambda: replacements(life), within=300)
        await asyncio.sleep(40)
        if late and kind is not None:
            watches.silence(kind, 120)
        await act(life, node)
        await life.until(lambda: not replacements(life), within=300)
        await life.until(lambda: life.running(3) and life.settled() and clean(life), within=600)
        assert [each.name for each in life.nodes] == [node.name]
        assert node.name not in ended.nodes
        assert life.events("DisruptionBlocked")
        await asyncio.sleep(1800)
        assert [each.name for each in life.nodes] == [node.name], "and it comes to rest"

    live(story, node_class(), QUIET, deployment(replicas=3), settings=ACTING)


def replacements(life):
    return [claim for claim in life.claims if REPLACES_ANNOTATION in claim.metadata.annotations]


def test_a_replacement_that_pods_already_use_stays_when_the_command_is_taken_back():
    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        (node,) = life.nodes
        life.world.apply(node_class(nodeRegistrationDelay="60s"))
        await patch_pool(life, DRIFTED)
        await life.until(lambda: replacements(life), within=300)
        (replacement,) = replacements(life)
        await asyncio.sleep(40)
        life.world.apply(deployment("more", replicas=1))  # the old node is tainted: it waits for a new one
        await protect_node(life, node)
        await life.until(lambda: life.running(4) and life.settled() and clean(life), within=600)
        (more,) = [pod for pod in life.pods if pod.metadata.name.startswith("more")]
        used = next(claim for claim in life.claims if claim.status.node_name == more.node_name)
        assert used.name == replacement.name
        assert node.name in [each.name for each in life.nodes]

    live(story, node_class(), QUIET, deployment(replicas=3), settings=ACTING)


def test_of_two_commands_that_a_lowered_budget_no_longer_allows_the_earlier_goes_on():
    async def story(life):
        await life.until(lambda: life.running(2) and life.settled())
        old = {node.name for node in life.nodes}
        assert len(old) == 2
        life.world.apply(node_class(nodeRegistrationDelay="60s"))
        await patch_pool(life, DRIFTED)
        await life.until(lambda: len(replacements(life)) == 2, within=300)
        await patch_pool(life, {"spec": {"disruption": {"budgets": [{"nodes": "1"}]}}})
        await life.until(lambda: len(old & {node.name for node in life.nodes}) == 1, within=300)
        await life.until(lambda: not old & {node.name for node in life.nodes}, within=3600)
        await life.until(lambda: life.running(2) and life.settled() and clean(life), within=600)

    live(story, node_class(), QUIET, one_a_node(2), settings=ACTING)


def one_a_node(replicas):
    rule = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}}
    return deployment(replicas=replicas, affinity=affinity)


async def pause_pool(life):
    await patch_pool(life, {"metadata": {"annotations": {"dovetail.sh/pause": "true"}}})


async def pause_everything(life):
    meta = {"name": "dovetail", "namespace": "default", "annotations": {"dovetail.sh/pause": "true"}}
    life.world.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})


async def pause_unreadably(life):
    meta = {"name": "dovetail", "namespace": "default", "annotations": {"dovetail.sh/pause": 5}}
    life.world.apply_unchecked({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})


PAUSES = [(pause_pool, NODE_POOL), (pause_everything, CONFIG_MAP), (pause_unreadably, CONFIG_MAP)]


@pytest.mark.parametrize("late", [False, True], ids=["seen", "watch late"])
@pytest.mark.parametrize(("pause", "kind"), PAUSES)
def test_a_pause_that_comes_while_the_replacement_starts_keeps_the_node(pause, kind, late, monkeypatch):
    watches = SilentWatches(monkeypatch)

    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        (node,) = life.nodes
        life.world.apply(node_class(nodeRegistrationDelay="60s"))
        await patch_pool(life, DRIFTED)
        await life.until(lambda: replacements(life), within=300)
        if late:
            watches.silence(kind, 120)
        await pause(life)
        await life.until(lambda: not replacements(life), within=300)
        await life.until(lambda: life.settled() and clean(life), within=600)
        assert [each.name for each in life.nodes] == [node.name]

    live(story, node_class(), QUIET, deployment(replicas=3), settings=ACTING)
