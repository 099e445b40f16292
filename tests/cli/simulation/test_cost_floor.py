"""The cost floor of a run stays below its cost, also with nodes that are no longer for sale."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dovetail.cli.app import app

EXAMPLES = Path(__file__).parents[3] / "examples" / "scenarios"
STORY = """
apiVersion: dovetail.sh/v1alpha1
kind: Scenario
metadata: {{name: changed}}
spec:
  for: 2h
  objects:
    - {{apiVersion: karpenter.kwok.sh/v1alpha1, kind: KWOKNodeClass, metadata: {{name: default}}}}
    - apiVersion: karpenter.sh/v1
      kind: NodePool
      metadata: {{name: default}}
      spec:
        template:
          spec:
            expireAfter: Never
            nodeClassRef: {{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}}
            requirements: [{{key: karpenter.sh/capacity-type, operator: In, values: [spot]}}]
        disruption: {{budgets: [{{nodes: "0"}}]}}
  workloads:
    - {{name: web, cpu: "2", memory: 4Gi, replicas: 10}}
  events:
    - {{at: 30m, patch: {{kind: NodePool, name: default, patch: {{spec: {{template: {{spec: {change}}}}}}}}}}}
"""
ON_DEMAND = "{requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]}"
TAINTED = "{taints: [{key: dedicated, effect: NoSchedule}]}"
SAME = "{expireAfter: 720h}"


def told(*arguments):
    result = CliRunner().invoke(app, ["simulate", *map(str, arguments), "-o", "json"])
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def floors(tmp_path, change):
    """Cost and floor an hour, before and after the pool was changed."""
    scenario = tmp_path / "changed.yaml"
    scenario.write_text(STORY.format(change=change))
    report = told(scenario)
    first, last = report["samples"][10], report["samples"][-1]
    assert first["cost"] == last["cost"] == pytest.approx(report["cost"]["total"] / 2, rel=0.01)
    return last["cost"], first["lowerBound"], last["lowerBound"]


def test_nodes_of_a_pool_as_it_was_go_on_at_their_price(tmp_path):
    """Spot nodes that a budget keeps in a pool that buys on-demand now are cheaper than all that could be bought."""
    cost, _, after = floors(tmp_path, ON_DEMAND)
    assert 0.5 * cost < after <= cost


def test_pods_that_a_new_taint_keeps_out_stay_where_they_are_and_count(tmp_path):
    cost, _, after = floors(tmp_path, TAINTED)
    assert 0.5 * cost < after <= cost


def test_a_pool_that_sells_what_it_sold_has_the_floor_it_had(tmp_path):
    cost, before, after = floors(tmp_path, SAME)
    assert after == before < cost


LOST = """
  workloads:
    - {name: steady, cpu: 3900m, memory: 1Gi, replicas: 2}
  events:
    - {at: 3m, every: 4m, fail: {nodes: 100%}}
"""


def test_pods_bound_to_a_lost_instance_cost_nothing(tmp_path):
    """Nodes are exactly as large as their pods, and lost again and again: cost and floor are the same."""
    head, _, _ = (EXAMPLES / "grace-period.yaml").read_text().partition("  workloads:")
    scenario = tmp_path / "lost.yaml"
    scenario.write_text(head + LOST.lstrip("\n"))
    cost = told(scenario, "--for", "15m")["cost"]
    assert 0.97 * cost["total"] < cost["lowerBound"] <= cost["total"]
