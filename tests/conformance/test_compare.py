"""What the comparison counts and how it prints it."""

from collections import Counter

import pytest

import builders
from conformance.compare import (
    SHAPES,
    evictions,
    later_claims,
    launched,
    node_price,
    pool,
)
from conformance.figures import ROWS, Figures, spread, table
from dovetail.cloud.kwok.catalog import generic_catalog
from dovetail.core.scheduling.draft import cheapest
from dovetail.core.scheduling.solver import solve
from dovetail.model.kinds import NODE_POOL
from e2e.watching import Change


def pod(uid, *conditions):
    return {
        "metadata": {"uid": uid},
        "status": {"conditions": [{"type": kind, "status": "True"} for kind in conditions]},
    }


def change(kind, before, after):
    return Change(1, kind, before, after, 0.0)


def test_a_pod_is_evicted_once_however_often_it_changes_afterwards():
    evicted = pod("a", "Ready", "DisruptionTarget")
    changes = [change("Pod", pod("a", "Ready"), evicted), change("Pod", evicted, None)]
    assert evictions([*changes, change("Pod", pod("b", "Ready"), None), change("Pod", None, pod("c"))]) == 1


def test_a_pod_without_conditions_is_not_evicted():
    assert evictions([change("Pod", None, {"metadata": {"uid": "a"}, "status": {"conditions": None}})]) == 0


def test_only_nodes_that_appear_are_launched():
    changes = [change("Node", None, pod("a")), change("Node", pod("a"), pod("a")), change("NodeClaim", None, pod("b"))]
    assert launched(changes) == 1


def test_claims_created_after_the_first_pod_was_bound_are_later():
    waiting, bound = {"metadata": {"uid": "a"}, "spec": {}}, {"metadata": {"uid": "a"}, "spec": {"nodeName": "n"}}
    claims = {uid: {"metadata": {"uid": uid}} for uid in ("planned", "later")}
    changes = [
        change("Pod", None, waiting),
        change("NodeClaim", None, claims["planned"]),
        change("Pod", waiting, bound),
        change("NodeClaim", claims["planned"], claims["planned"]),
        change("NodeClaim", None, claims["later"]),
        change("Pod", bound, None),
    ]
    assert later_claims(changes) == {"later"}


def test_the_cost_of_several_runs_is_one_line():
    assert spread("dovetail", [5.0, 5.2, 5.9]).split("$/h: ")[1] == "min 5.00  median 5.20  mean 5.37  max 5.90"


def test_the_table_fits_eighty_columns_and_has_a_row_for_each_figure():
    runs = [Figures(name, scale_out_seconds=123456.7, scale_out_nodes=1000) for name in ("dovetail", "karpenter")]
    lines = table(runs).splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) == 1 + len(ROWS)
    assert lines[1].split()[-3:] == ["123,456.7", "123,456.7", "1.00"]


def test_a_ratio_to_nothing_is_left_out():
    assert table([Figures("dovetail", restarts=1), Figures("karpenter")]).splitlines()[-1].split()[-2:] == ["1", "0"]


def test_the_plan_for_200_pods_is_what_karpenter_launches():
    """Read from a real run of Karpenter v1.14.1: the pods of each NodeClaim, and what they cost together."""
    pods = [builders.pod(f"{cpu}-{number}", cpu, memory) for cpu, memory in SHAPES for number in range(40)]
    default = builders.build(NODE_POOL, pool("1"))
    plan = solve(builders.snapshot(pods, pools=[default], types=generic_catalog()), pods, [default])
    assert Counter(len(draft.pods) for draft in plan.drafts) == {11: 5, 13: 1, 18: 2, 23: 1, 31: 1, 42: 1}
    assert sum(map(cheapest, plan.drafts)) == pytest.approx(5.190274)


def test_only_the_template_differs_between_revisions():
    one, two = pool("1"), pool("2")
    assert one != two
    two["spec"]["template"]["metadata"] = one["spec"]["template"]["metadata"]
    assert one == two


def test_a_node_that_was_bought_at_another_price_is_noticed():
    labels = {
        "node.kubernetes.io/instance-type": "c-2x",
        "topology.kubernetes.io/zone": "a",
        "karpenter.sh/capacity-type": "spot",
        "eks-node-viewer/instance-price": "0.25",
    }
    node = {"metadata": {"name": "n", "labels": labels}}
    assert node_price(node, {("c-2x", "a", "spot"): 0.25}) == 0.25
    with pytest.raises(AssertionError, match=r"n costs 0.25 \$/h, and 0.3 on the price list"):
        node_price(node, {("c-2x", "a", "spot"): 0.3})
