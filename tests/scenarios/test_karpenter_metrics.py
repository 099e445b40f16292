"""The scraped text against Karpenter's metrics: names, types and labels, read by a parser that shares no code with it.

The table in `data/karpenter_metrics.txt` was written from Karpenter's own list. The second half asks what Karpenter's
published dashboards ask.
"""

import asyncio
import functools
import re
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import pytest

from dovetail.model.kinds import NODE_CLAIM
from stories import ACTING, FREELY, ON_DEMAND, budget, deployment, live, node_class, node_pool

DATA = Path(__file__).parents[1] / "data" / "karpenter_metrics.txt"
OWN_LABELS = {"karpenter_build_info": {"python_version"}}
NOT_IN_A_WORLD = re.compile(
    r"operator_ec2nodeclass_|aws_sdk_go_|client_go_|leader_election_"
    r"|karpenter_(ec2nodeclasses|cloudprovider_batcher|cloudprovider_instance_(launch|termination)_failures)_"
)
"""Metrics of AWS, of HTTP clients and of leader election; their own tests look at them."""


def expected():
    """Name, type, labels, and whether labels without a value may be missing, of every metric."""
    groups, found = {}, []
    for line in DATA.read_text().splitlines():
        first, *rest = line.split()
        if first.startswith("@"):
            groups[first] = rest
        elif not first.startswith(("#", "-")):
            kind, *labels = rest
            names = {name for label in labels for name in groups.get(label, [label])}
            sparse = {"@node", "namespace"} & set(labels)
            found.append(pytest.param(first, kind, names, bool(sparse), id=first))
    return found


def parse(text):
    """Series by name as (labels, value), and types by name, of the text format 0.0.4."""
    found = SimpleNamespace(types={}, series=defaultdict(list))
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in found.types, f"{name} has two families"
            found.types[name] = kind
        elif not line.startswith("#"):
            match = re.fullmatch(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)", line)
            assert match, line
            pairs = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', match[2] or "")
            assert ",".join(f'{name}="{value}"' for name, value in pairs) == (match[2] or "").rstrip(","), line
            labels = dict(pairs)
            assert len(labels) == len(pairs), f"a label twice: {line}"
            found.series[match[1]].append((labels, float(match[3])))
    return found


SMALL = [*ON_DEMAND, {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c-4x-amd64-linux"]}]


@functools.cache
def scraped():
    """A cluster that scales out, drifts, consolidates, and is scaled in, with pods that wait and evictions."""

    async def story(life):
        await life.until(lambda: life.nodes and life.running(6 + len(life.nodes)) and life.settled())
        life.world.apply(deployment("impossible", 1, cpu="100000"))
        drifting = node_pool(
            template={"requirements": SMALL},
            template_metadata={"labels": {"generation": "second"}},
            disruption={**FREELY, "consolidationPolicy": "Balanced"},
            limits={"cpu": "1000", "memory": "4000Gi"},
        )
        life.world.apply(drifting)
        await asyncio.sleep(900)
        life.world.apply(deployment(replicas=1))
        await asyncio.sleep(900)
        await life.world.delete(NODE_CLAIM, life.claims[0].key)
        await asyncio.sleep(2)
        await life.parts.manager.gauges.refresh()
        return life.parts.metrics.render().decode()

    pool = node_pool(template={"requirements": SMALL}, disruption=FREELY, limits={"cpu": "1000", "memory": "4000Gi"})
    daemons = {**deployment("agent", cpu="100m", memory="64Mi"), "kind": "DaemonSet"}
    del daemons["spec"]["replicas"]
    manifests = (deployment(replicas=6), daemons, budget(maxUnavailable=1))
    return parse(live(story, node_class(), pool, *manifests, settings=ACTING))


def samples_of(found, name, kind):
    """The labels of each series, and for a histogram or summary with those of its parts."""
    if kind in ("histogram", "summary"):
        parts = [f"{name}_sum", f"{name}_count", *([f"{name}_bucket"] if kind == "histogram" else [name])]
    else:
        parts = [name]
    return {part: [labels for labels, _ in found.series[part]] for part in parts}


@pytest.mark.parametrize(("name", "kind", "labels", "sparse"), expected())
def test_each_metric_of_karpenter_is_there_with_its_type_and_labels(name, kind, labels, sparse):
    found = scraped()
    absent = kind == "gauge" and NOT_IN_A_WORLD.match(name)  # a gauge appears with its first value
    assert found.types.get(name, kind if absent else None) == kind
    allowed = labels | OWN_LABELS.get(name, set())
    for part, series in samples_of(found, name, kind).items():
        own = {f"{name}_bucket": {"le"}, name: {"quantile"} if kind == "summary" else set()}.get(part, set())
        for each in series:
            assert set(each) <= allowed | own
            assert sparse or set(each) == allowed | own


def test_all_others_are_declared_as_ours():
    known = {param.id for param in expected()}
    others = {name for name in scraped().types if name not in known}
    assert {name for name in others if not name.startswith(("dovetail_", "operator_kwoknodeclass_"))} == set()


SEEN = [param for param in expected() if not NOT_IN_A_WORLD.match(param.id)]
NEVER_HERE = {
    "karpenter_nodeclaims_unhealthy_disrupted_total",
    "karpenter_interruption_received_messages_total",
    "karpenter_interruption_instance_status_unhealthy_total",
    "karpenter_cloudprovider_errors_total",
    "karpenter_voluntary_disruption_failed_validations_total",
    "karpenter_voluntary_disruption_queue_failures_total",
    "karpenter_consolidation_score",
    "karpenter_consolidation_moves_total",
    "karpenter_pods_provisioning_unbound_time_seconds",
    "karpenter_pods_provisioning_unstarted_time_seconds",
    "karpenter_pods_provisioning_scheduling_undecided_time_seconds",
    "operator_nodepool_status_condition_transition_seconds",
    "operator_node_status_condition_transition_seconds",
    "operator_nodepool_termination_current_time_seconds",
    "operator_nodepool_termination_duration_seconds",
}
"""Metrics that this story does not lead to."""


@pytest.mark.parametrize("name", [param.id for param in SEEN if param.id not in NEVER_HERE])
def test_each_metric_of_karpenter_has_series_in_a_cluster_that_lives(name):
    found = scraped()
    assert any(found.series[part] for part in samples_of(found, name, found.types[name]))


def values(name, **wanted):
    return {
        frozenset(labels.items()): value
        for labels, value in scraped().series[name]
        if all(labels.get(key) == each for key, each in wanted.items())
    }


DASHBOARD = [
    ("karpenter_nodes_created_total", {"nodepool"}),
    ("karpenter_nodes_terminated_total", {"nodepool"}),
    ("karpenter_nodeclaims_disrupted_total", {"nodepool", "reason"}),
    ("karpenter_voluntary_disruption_decisions_total", {"decision", "reason"}),
    ("karpenter_voluntary_disruption_eligible_nodes", {"reason"}),
    ("karpenter_pods_state", {"phase", "nodepool", "zone", "arch", "capacity_type", "instance_type"}),
    ("karpenter_nodes_allocatable", {"nodepool", "zone", "arch", "capacity_type", "instance_type", "resource_type"}),
    ("karpenter_nodes_termination_duration_seconds", {"quantile", "nodepool"}),
    ("karpenter_pods_startup_duration_seconds", {"quantile"}),
    ("controller_runtime_reconcile_time_seconds_bucket", {"controller", "le"}),
    ("controller_runtime_reconcile_time_seconds_count", {"controller"}),
    ("controller_runtime_reconcile_total", {"controller", "result"}),
    ("controller_runtime_reconcile_errors_total", {"controller"}),
    ("workqueue_depth", {"name"}),
]


@pytest.mark.parametrize(("name", "labels"), DASHBOARD, ids=[name for name, _ in DASHBOARD])
def test_the_dashboards_find_their_series_with_the_labels_they_group_by(name, labels):
    found = [each for each, _ in scraped().series[name]]
    assert any(labels <= set(each) and all(each[label] or label == "nodepool" for label in labels) for each in found)


def test_usage_and_limit_can_be_divided_series_by_series():
    usage, limit = values("karpenter_nodepools_usage"), values("karpenter_nodepools_limit")
    assert limit
    assert set(limit) <= set(usage)
    assert all(0 < usage[row] / limit[row] < 1 for row in limit)


def test_requests_of_pods_and_daemons_can_be_added_and_divided_by_allocatable():
    for kind in ("cpu", "memory"):
        pods = values("karpenter_nodes_total_pod_requests", resource_type=kind)
        daemons = values("karpenter_nodes_total_daemon_requests", resource_type=kind)
        allocatable = values("karpenter_nodes_allocatable", resource_type=kind)
        limits = values("karpenter_nodes_total_pod_limits", resource_type=kind)  # no pod has any
        assert set(pods) == set(daemons) == set(limits) == set(allocatable) != set()
        assert all(daemons[row] <= pods[row] <= allocatable[row] for row in pods)


def test_each_pod_is_one_series_with_the_value_one():
    pods = scraped().series["karpenter_pods_state"]
    assert all(value == 1 for _, value in pods)
    names = [(labels["namespace"], labels["name"]) for labels, _ in pods]
    assert len(names) == len(set(names)) > 1
    assert {labels["owner"].split("/")[-2] for labels, _ in pods} == {"replicasets", "daemonsets"}


def test_summaries_have_the_quantiles_that_dashboards_select():
    found = values("karpenter_pods_startup_duration_seconds")
    assert {dict(row)["quantile"] for row in found} == {"0", "0.5", "0.9", "0.99", "1"}
