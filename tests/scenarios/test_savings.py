"""Savings in simulated clusters: against the same cluster with disruption off, and over a restart."""

from datetime import timedelta

import pytest
import yaml

from dovetail.cli.simulation.runner import run_scenario
from dovetail.cli.simulation.variants import DISRUPTION_OFF, variants_of
from dovetail.core.savings import saved_dollars
from scenarios.test_ledger import history, lived, scaled_out
from stories import deployment, node_class, pool

POOL = """
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: default}}
spec:
  template:
    spec:
      expireAfter: {expires}
      nodeClassRef: {{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}}
      requirements:
        - {{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}}
        - {{key: karpenter.kwok.sh/instance-cpu, operator: In, values: {sizes}}}
  disruption: {{consolidationPolicy: {policy}, consolidateAfter: 5m, budgets: [{{nodes: 50%}}]}}
"""
NODE_CLASS = {"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}}
WAVES = [{"name": "web", "cpu": "500m", "memory": "1Gi", "daily": {"low": 3, "high": 20, "peak": "05:00"}}]
BUILDS = [{"name": "build", "cpu": "2", "memory": "4Gi", "runs": {"every": "2h", "lasts": "20m", "pods": 4}}]


EVENING = [{"name": "web", "cpu": "500m", "memory": "1Gi", "daily": {"low": 4, "high": 60, "peak": "00:00"}}]
INTERRUPTIONS = [{"at": "6h", "every": "2h", "interrupt": {"nodes": "30%"}}]
FAILURES = [{"at": "6h30m", "every": "2h", "fail": {"nodes": "30%"}}]


def document(workloads, sizes="['4', '8', '16']", policy="WhenEmptyOrUnderutilized", expires="Never", events=()):
    manifest = yaml.safe_load(POOL.format(sizes=sizes, policy=policy, expires=expires))
    spec = {"for": "10h", "seed": 1, "objects": [NODE_CLASS, manifest], "workloads": workloads, "events": [*events]}
    return {"apiVersion": "dovetail.sh/v1alpha1", "kind": "Scenario", "metadata": {"name": "s"}, "spec": spec}


@pytest.mark.parametrize(
    "scenario",
    [
        document(WAVES),
        document(BUILDS),
        document([*WAVES, *BUILDS]),
        document([*WAVES, *BUILDS], sizes="['4']"),
        document([*WAVES, *BUILDS], policy="WhenEmpty"),
        document([*WAVES, *BUILDS], expires="3h"),
    ],
    ids=["waves", "builds", "both", "small nodes", "only empty nodes", "nodes expire"],
)
def test_saved_and_spent_never_exceed_the_cost_without_disruption(scenario):
    with_it, without_it = lived_twice(scenario, seed=1)
    assert without_it["savings"]["commands"] == 0
    assert with_it["savings"]["commands"] > 0
    assert with_it["savings"]["notCounted"] == 0
    difference = without_it["cost"]["total"] - with_it["cost"]["total"]
    assert 0.3 * difference < with_it["savings"]["total"] <= difference + 0.001


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("events", [INTERRUPTIONS, FAILURES], ids=["interruptions", "failures"])
def test_saved_and_spent_never_exceed_the_cost_without_disruption_when_nodes_are_lost(events, seed):
    """After the peak most nodes are removed. Without disruption they stay, and later ones of them are lost for good."""
    with_it, without_it = lived_twice(document(EVENING, sizes="['4', '8']", events=events), seed)
    difference = without_it["cost"]["total"] - with_it["cost"]["total"]
    assert 0.3 * difference < with_it["savings"]["total"] <= difference + 0.001


def lived_twice(scenario, seed):
    """The report of a scenario, and that without disruption."""
    variants = variants_of(scenario, "s", [(), (DISRUPTION_OFF,)], [seed])
    return [run_scenario(variant.scenario).report for variant in variants]


def test_what_was_saved_before_a_restart_is_still_known_after_it(tmp_path):
    path = tmp_path / "ledger.db"

    async def story(life):
        await scaled_out(life)
        life.world.apply(deployment(replicas=0))
        await life.until(lambda: not life.nodes)
        before = saved(life)
        await life.restart()
        await life.until(life.settled)
        return before, saved(life)

    def saved(life):
        return saved_dollars(life.parts.manager.savings.savings(life.world.clock.now() + timedelta(hours=1)))

    before, after = lived(path, story, node_class(), pool())
    assert 0 < before <= after < 1.1 * before
    assert all(node.gone_at is not None for each in history(path, act="disrupt") for node in each.nodes)
