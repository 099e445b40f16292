"""One cluster, one controller, a NodePool for every way a node is disrupted by choice: all of it at the same time.

Each test looks at what became of its own pool. The last one looks back on everything, and at what is left.
"""

import json
import time
from datetime import UTC, datetime, timedelta

import pytest

from e2e.controlplane.api import eventually
from e2e.controlplane.slate import wipe
from e2e.invariants import POOL, judged, record_of, unrest, voluntarily
from e2e.leaving import SMALL, pool
from e2e.running import NODE_CLASS, apply, controller, install_crds, spelled
from e2e.watching import Watcher

FREELY = {"consolidateAfter": "0s", "minSavings": "0%", "budgets": [{"nodes": "100%"}]}
NEVER = {"consolidateAfter": "Never", "budgets": [{"nodes": "1"}]}
LARGE = {**SMALL, "values": ["s-4x-amd64-linux", "s-16x-amd64-linux"]}
ON_DEMAND = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
POOLS = {  # disruption, pods before, pods after
    "empty": ({**FREELY, "consolidationPolicy": "WhenEmpty"}, 6, 0),
    "waiting": ({**FREELY, "consolidationPolicy": "WhenEmpty", "consolidationGracePeriod": "25s"}, 3, 0),
    "several": (FREELY, 9, 3),
    "single": (FREELY, 12, 2),
    "drifting": (NEVER, 9, 9),
    "expiring": (NEVER, 6, 6),
    "guarded": (NEVER, 2, 2),
    "shut": (NEVER, 2, 2),
    "protected": (NEVER, 2, 2),
}
DRIFTS = ("drifting", "guarded", "shut", "protected")
GUARDED_FOR = timedelta(seconds=25)


def named(name, crd_owner):
    template = {"requirements": [LARGE if name == "single" else SMALL, ON_DEMAND]}
    return spelled(pool(name, template=template, disruption=POOLS[name][0]), crd_owner)


def workload(name):
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    pod = {"containers": [container], "nodeSelector": {POOL: name}, "terminationGracePeriodSeconds": 5}
    labels = {"app": name}
    spec = {
        "replicas": POOLS[name][1],
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    guard = {"maxUnavailable": 3, "selector": {"matchLabels": labels}}
    return (
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec},
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": guard},
    )


def everything(things):
    return {"apiVersion": "v1", "kind": "List", "items": list(things)}


class Life:
    """The cluster, and what was seen of it."""

    def __init__(self, cluster, watcher, namespace, crd_owner):
        self.cluster = cluster
        self.crd_owner = crd_owner
        self.namespace = namespace
        self.watcher = watcher
        self.first = {}
        self.guarded_until = self.shut_until = None

    def nodes(self, name):
        return {
            node["metadata"]["name"]: node
            for node in self.watcher.now("Node")
            if node["metadata"].get("labels", {}).get(POOL) == name
        }

    def marks(self, name):
        """Every command of a pool, by when it was first seen on a claim."""
        found = {}
        for change in self.watcher.history():
            if change.kind != "NodeClaim" or not voluntarily(change.after):
                continue
            if change.after["metadata"]["labels"][POOL] == name:
                record = record_of(change.after)
                found.setdefault(record["id"], (datetime.fromtimestamp(change.seen_at, UTC), record))
        return list(found.values())

    def until(self, probe, what, within=150):
        eventually(probe, what, within=within, every=0.2)

    def replaced(self, name):
        """None of the first nodes is there any more, and the pods run on others."""
        there = self.nodes(name)
        return there and not set(there) & set(self.first[name]) and self.runs(name, POOLS[name][2])

    def runs(self, name, wanted):
        found = [pod for pod in self.watcher.now("Pod") if pod["metadata"].get("labels", {}).get("app") == name]
        return len(found) == wanted and all(pod["status"]["phase"] == "Running" for pod in found)

    def begin(self):
        """Set the scene."""
        apply(self.cluster, everything([NODE_CLASS, *(named(name, self.crd_owner) for name in POOLS)]))
        apply(self.cluster, everything(each for name in POOLS for each in workload(name)), self.namespace)
        self.until(lambda: all(self.runs(name, POOLS[name][1]) for name in POOLS), "every pod runs")
        self.until(lambda: not unrest(self.cluster), "every claim has its node")
        self.first = {name: self.nodes(name) for name in POOLS}

    def upset(self):
        """Give every pool its reason to move."""
        kubectl = self.cluster.kubectl
        for node in self.first["protected"]:
            kubectl("annotate", "node", node, "karpenter.sh/do-not-disrupt=true")
        self._guard()
        self._shut()
        drifted = {"spec": {"template": {"metadata": {"labels": {"version": "new"}}}}}
        for name in DRIFTS:
            kubectl("patch", "nodepool", name, "--type=merge", "-p", json.dumps(drifted))
        self.expire_after("1s")
        for name, (_, before, after) in POOLS.items():
            if before != after:
                kubectl("scale", "deployment", name, "-n", self.namespace, f"--replicas={after}")

    def expire_after(self, span):
        patch = spelled({"metadata": {}, "spec": {"disruption": {"expireAfter": span}}}, self.crd_owner)
        self.cluster.kubectl("patch", "nodepool", "expiring", "--type=merge", "-p", json.dumps(patch))

    def _guard(self):
        """Protection counts from the creation of a pod."""
        pods = [pod for pod in self.watcher.now("Pod") if pod["metadata"].get("labels", {}).get("app") == "guarded"]
        self.guarded_until = datetime.now(UTC) + GUARDED_FOR
        for pod in pods:
            age = self.guarded_until - datetime.fromisoformat(pod["metadata"]["creationTimestamp"])
            span = f"karpenter.sh/do-not-disrupt={round(age.total_seconds())}s"
            self.cluster.kubectl("annotate", "pod", pod["metadata"]["name"], "-n", self.namespace, span)

    def _shut(self):
        """A window that began a minute ago or two, and ends with a minute that is at least 20 s away."""
        now = datetime.now(UTC)
        self.shut_until = (now + timedelta(seconds=80)).replace(second=0, microsecond=0)
        opened = self.shut_until - timedelta(minutes=3)
        shut = {"nodes": "0", "schedule": f"{opened.minute} {opened.hour} * * *", "duration": "3m"}
        patch = json.dumps({"spec": {"disruption": {"budgets": [{"nodes": "1"}, shut]}}})
        self.cluster.kubectl("patch", "nodepool", "shut", "--type=merge", "-p", patch)


@pytest.fixture(scope="module")
def life(control_plane, crd_owner):
    wipe(control_plane.api)
    install_crds(control_plane, crd_owner)
    namespace = control_plane.create_namespace(f"life-{crd_owner}")  # that of the other owner's run is still going
    acting = {"DOVETAIL_DISRUPTION": "on", "DOVETAIL_CATALOG": "generic", "DISABLE_LEADER_ELECTION": "true"}
    with Watcher(control_plane) as watcher, controller(control_plane, **acting) as process:
        life = Life(control_plane, watcher, namespace, crd_owner)
        life.begin()
        life.upset()
        yield life
        assert "Traceback" not in process.log.read_text(), process.tail(60)


def test_soft_expiration_replaces_one_node_after_the_other(life):
    life.until(lambda: not set(life.nodes("expiring")) & set(life.first["expiring"]), "the old ones are gone")
    life.expire_after("Never")
    life.until(lambda: life.runs("expiring", 6), "the pods run elsewhere")
    assert {record["reason"] for _, record in life.marks("expiring")} == {"Expired"}
    assert all(record["replacements"] == 1 for _, record in life.marks("expiring"))


def test_drift_replaces_node_after_node_as_its_budget_says(life):
    life.until(lambda: life.replaced("drifting"), "every node is replaced")
    assert {node["metadata"]["labels"]["version"] for node in life.nodes("drifting").values()} == {"new"}
    assert len(life.first["drifting"]) == len(life.marks("drifting")) == 3


def test_a_pod_protected_for_a_while_keeps_its_node_until_then(life):
    life.until(lambda: life.replaced("guarded"), "the node is replaced")
    ((marked_at, record),) = life.marks("guarded")
    assert record["reason"] == "Drifted"
    assert marked_at >= life.guarded_until - timedelta(seconds=1)


def test_a_budget_of_none_holds_while_its_window_is_open(life):
    life.until(lambda: life.replaced("shut"), "the node is replaced")
    ((marked_at, _),) = life.marks("shut")
    assert life.shut_until <= marked_at < life.shut_until + timedelta(seconds=45)


def test_empty_nodes_go_without_replacement(life):
    life.until(lambda: not life.nodes("empty"), "they are gone")
    assert {(record["reason"], record["replacements"]) for _, record in life.marks("empty")} == {("Empty", 0)}


def test_a_node_whose_pods_just_moved_is_left_alone_for_the_grace_period(life):
    (node,) = life.first["waiting"]
    life.until(lambda: not life.nodes("waiting"), "it is gone")
    ((marked_at, record),) = life.marks("waiting")
    gone = [
        change.seen_at
        for change in life.watcher.history()
        if change.kind == "Pod" and change.before and change.before["spec"]["nodeName"] == node
    ]
    assert record["reason"] == "Empty"
    assert marked_at.timestamp() - max(gone) >= 23  # the event is told to the second, and a little before it is seen


def test_several_underutilised_nodes_become_one(life):
    life.until(lambda: len(life.nodes("several")) == 1 and life.runs("several", 3), "one carries all")
    commands = [record for _, record in life.marks("several")]
    assert {record["reason"] for record in commands} <= {"Underutilized", "Empty"}  # one may be empty by chance
    assert {record["replacements"] for record in commands} == {0}


def test_a_node_that_is_too_large_is_replaced_by_a_cheaper_one(life):
    life.until(lambda: life.replaced("single"), "it is replaced")
    (node,) = life.nodes("single").values()
    assert node["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "s-4x-amd64-linux"
    ((_, record),) = life.marks("single")
    assert (record["reason"], record["candidates"], record["replacements"]) == ("Underutilized", 1, 1)


def test_in_the_end_nothing_is_left_behind_and_no_law_was_broken(life):
    life.until(lambda: not unrest(life.cluster), "the cluster is at rest", within=60)
    time.sleep(3)  # nobody may have second thoughts
    assert unrest(life.cluster) == []
    assert set(life.nodes("protected")) == set(life.first["protected"])
    assert life.marks("protected") == []
    ceilings = {name: 1 for name, (disruption, _, _) in POOLS.items() if disruption is NEVER}
    judge = judged(life.watcher.history(), ceilings)
    assert judge.broken == []
    rolled = ("drifting", "expiring", "guarded", "shut")
    assert len(judge.evicted) >= sum(POOLS[name][1] for name in rolled), "what rolls moves every pod"
    assert len(judge.most_away) == len(POOLS) - 1
