"""A cluster changes hands, on Karpenter's own CRDs: Karpenter builds it, Dovetail takes over, Karpenter takes it back.

Whoever takes over finds everything in order and leaves it alone. The tests are one story: they share a cluster and run
in this order. Both programs use Karpenter's Lease, so the second one stands by until the first has stopped.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from e2e.components import build
from e2e.conftest import require_binaries
from e2e.controlplane.api import eventually
from e2e.controlplane.slate import wipe
from e2e.invariants import POOL, condition, deleting, unrest
from e2e.leaving import pool
from e2e.peer import LEASE, karpenter
from e2e.running import DOVETAIL, KARPENTER, NODE_CLASS, apply, controller, install_crds
from e2e.watching import Watcher

MINUTES = float(os.environ.get("DOVETAIL_E2E_ADOPTION_MINUTES", "2"))
"""How long a cluster is watched after it changed hands; ten cover every timer that is shorter than an hour."""
AT_REST = 30.0  # seconds without a new or lost claim: longer than Karpenter looks twice at a consolidation
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/karpenter-leader-election"
ACTING = {"DOVETAIL_DISRUPTION": "on", "DOVETAIL_CATALOG": "generic", **LEASE}
ON_DEMAND = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
SMALL = {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["2", "4", "8"]}
RESTING = {"key": "example.com/resting", "value": "yes", "effect": "NoSchedule"}
POOLS = (
    pool(
        "moving",
        template={"requirements": [SMALL, ON_DEMAND], "expireAfter": "720h"},
        disruption={"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]},
    ),
    pool(
        "resting",
        template={"requirements": [ON_DEMAND], "taints": [RESTING], "terminationGracePeriod": "1h"},
        disruption={"consolidateAfter": "Never", "budgets": [{"nodes": "10%"}]},
        weight=10,
    ),
)


def workload(kind, name, pod, **spec):
    """Pods of one core each unless `pod` says otherwise."""
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container], **pod}}
    spec |= {"selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


AGENT = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}}}
WORKLOADS = (
    workload("DaemonSet", "agent", {"containers": [AGENT], "tolerations": [{"operator": "Exists"}]}),
    workload("Deployment", "web", {"nodeSelector": {POOL: "moving"}}, replicas=10),
    workload("Deployment", "db", {"nodeSelector": {POOL: "resting"}, "tolerations": [RESTING]}, replicas=3),
)


class Story:
    """One cluster, whoever runs it now, and everything that happens in it."""

    namespace = "adoption"

    def __init__(self, cluster, watcher):
        self.cluster = cluster
        self.watcher = watcher
        self._leader = ExitStack()
        self._process = None

    def claims(self, pool_name="moving"):
        """The claims of a pool, by name."""
        found = self.watcher.now("NodeClaim")
        return {each["metadata"]["name"]: each for each in found if each["metadata"]["labels"][POOL] == pool_name}

    def scale(self, replicas):
        self.cluster.kubectl("scale", "deployment", "web", "-n", self.namespace, f"--replicas={replicas}")

    def change_template(self, template):
        patch = json.dumps({"spec": {"template": template}})
        self.cluster.kubectl("patch", "nodepool", "moving", "--type=merge", "-p", patch)

    def hand_to(self, program, stands_by):
        """Start a program, stop the one that leads as soon as it stands by, and wait until it leads."""
        former = self.holder()
        with ExitStack() as successor:
            process = successor.enter_context(program)
            eventually(lambda: stands_by in process.log.read_text(), f"{process.name} stands by", within=60)
            assert self.holder() == former, f"{process.name} leads beside another"
            self.close()
            self._leader, self._process = successor.pop_all(), process
        eventually(lambda: self.holder() not in {former, ""}, f"{process.name} leads", within=60)

    def holder(self):
        lease = self.cluster.api.get(LEASES)
        return lease.body["spec"].get("holderIdentity") or "" if lease.ok else ""

    def close(self):
        """Stop whoever leads."""
        self._leader.close()

    def crash(self):
        """Kill whoever leads. The Lease stays taken until it runs out."""
        self._process.kill()
        self._leader.pop_all()

    def come_to_rest(self):
        """Wait until every pod runs and nothing came or went for a while."""
        seen, since = None, time.monotonic()

        def at_rest():
            nonlocal seen, since
            there = {each["metadata"]["uid"] for each in self.watcher.now("NodeClaim")}
            if unrest(self.cluster) or self.orphans() or there != seen:
                seen, since = there, time.monotonic()
            return time.monotonic() - since >= AT_REST

        eventually(at_rest, "the cluster is at rest", within=120, every=0.5)

    def orphans(self):
        """Pods of DaemonSets whose node is gone: the pod garbage collector deletes them up to a minute later."""
        nodes = {each["metadata"]["name"] for each in self.watcher.now("Node")}
        bound = {each["spec"]["nodeName"] for each in self.watcher.now("Pod")} - {None, ""}
        return bound - nodes

    def watch(self):
        """Whether the cluster is left alone: what happened that should not, until something did or the time is over."""
        began, until = self.revision(), time.monotonic() + 60 * MINUTES
        while time.monotonic() < until:
            moves = [move for change in self.since(began) for move in moves_of(change)]
            assert moves == []
            time.sleep(1)
        assert unrest(self.cluster) == []
        written = Counter(change.kind for change in self.since(began))
        sys.stdout.write(f"\nwritten in {MINUTES:g} minutes: {dict(written)}\n")

    def revision(self):
        return max(change.revision for change in self.watcher.history())

    def since(self, revision):
        return [change for change in self.watcher.history() if change.revision > revision]


def moves_of(change):
    """What a change does to the cluster: a launch, an eviction, a deletion, drift, a mark of a disruption."""
    before, after, what = change.before, change.after, f"{change.kind} {change.thing['metadata']['name']}"
    if change.kind in {"NodeClaim", "Node", "Pod"}:
        if before is None or after is None:
            yield f"{what} {'appeared' if before is None else 'is gone'}"
        elif deleting(after) and not deleting(before):
            yield f"{what} is deleted"
    if change.kind == "Node" and after is not None:
        taints = [each["key"] for each in after["spec"].get("taints", ())]
        yield from (f"{what} is tainted {key}" for key in taints if key.startswith("karpenter.sh/"))
    if change.kind == "NodeClaim" and after is not None:
        yield from (f"{what} has {kind}" for kind in ("Drifted", "DisruptionReason") if condition(after, kind))
    if change.kind in {"NodePool", "NodeClaim"} and after is not None:
        ready = condition(after, "Ready")
        if ready is None or ready["status"] != "True":
            yield f"{what} is not ready: {ready}"


GATED = {"schedulingGates": [{"name": "example.com/never"}]}
STAND_IN = workload("Deployment", "karpenter", GATED, replicas=1)
STAND_IN["metadata"]["labels"] = {"app.kubernetes.io/name": "karpenter"}
"""In place of the Deployment that a real Karpenter has: here it is a process. Its pod is never scheduled."""
IN_THE_CLUSTER = (
    "kubectl -n dovetail scale",
    "kubectl -n dovetail rollout",
    "kubectl -n dovetail logs",
    "dovetail plan",
)
"""Commands that need pods that run."""


def adoption_report(cluster):
    """`dovetail adopt`, by an account that may do everything and whose requests are recorded."""
    cluster.kubectl(
        "create",
        "clusterrolebinding",
        "adopter",
        "--clusterrole=cluster-admin",
        "--group=system:serviceaccounts:dovetail",
    )
    kubeconfig = cluster.token_kubeconfig("adopter", cluster.service_account_token("dovetail", "adopter"))
    arguments = ["adopt", "--kubeconfig", str(kubeconfig), "--catalog", "generic", "-o", "json"]
    done = subprocess.run([DOVETAIL, *arguments], capture_output=True, text=True, check=False)
    cluster.kubectl("delete", "clusterrolebinding", "adopter")  # it would grant every role to tests that come later
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def written_by_accounts(cluster, since=0):
    """What service accounts of the namespace wrote or asked for besides reading, after so many recorded requests."""
    lines = [json.loads(line) for line in cluster.audit_log.read_text().splitlines()[since:]]
    assert lines, "requests are recorded"
    return {(each["verb"], each["objectRef"]["resource"]) for each in lines if each["verb"] not in {"get", "list"}}


def follow(cluster, steps, directory):
    """Type the printed commands, but those that need pods that run."""
    (directory / "deploy").symlink_to(Path(__file__).parents[2] / "deploy")
    path = f"{build.binaries_dir()}:{os.environ['PATH']}"
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "PATH": path, "HOME": str(directory)}
    typed = [each for step in steps for each in step["commands"] if not each.startswith(IN_THE_CLUSTER)]
    for command in typed:
        argv = ["bash", "-c", command]
        done = subprocess.run(argv, cwd=directory, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stderr}"
    return typed


@pytest.fixture(scope="module")
def story(control_plane):
    """A cluster that Karpenter built and still runs."""
    require_binaries(build.KARPENTER)
    wipe(control_plane.api)
    install_crds(control_plane, KARPENTER)
    control_plane.create_namespace(Story.namespace)
    with Watcher(control_plane) as watcher:
        story = Story(control_plane, watcher)
        try:
            story.hand_to(karpenter(control_plane), "")
            for manifest in (NODE_CLASS, *POOLS):
                apply(control_plane, manifest)
            for manifest in WORKLOADS:
                apply(control_plane, manifest, Story.namespace)
            story.come_to_rest()
            yield story
        finally:
            story.close()


def test_adopt_reports_beside_karpenter_and_its_steps_change_nothing(story, tmp_path):
    cluster = story.cluster
    cluster.create_namespace("dovetail")
    apply(cluster, STAND_IN, "kube-system")
    before, began = definitions(cluster), story.revision()
    report = adoption_report(cluster)
    assert written_by_accounts(cluster) == {("create", "selfsubjectaccessreviews")}
    assert (report["ready"], report["karpenter"]["namespace"]) == (True, "kube-system")
    messages = [each["message"] for each in report["findings"]]
    assert f"kube-system/karpenter-leader-election is held by {story.holder()}" in messages
    assert "the hashes of 2 NodePools are equal: the switch makes no node drift" in messages
    assert any("nodepools.karpenter.sh (v1) is Karpenter's; drops" in each for each in messages)
    for hour in report["firstHour"]:
        assert (hour["nodesLaunched"], hour["nodesRemoved"], hour["evictions"]) == (0, 0, 0)
        assert hour["podsPending"] == 1, "the pod of the stand-in"
        assert hour["costPerHourBefore"] == hour["costPerHourAfter"] > 0
    typed = follow(cluster, report["switch"], tmp_path)
    assert "kubectl -n kube-system scale deployment karpenter --replicas=0" in typed
    (installed,) = cluster.api.get("/apis/apps/v1/namespaces/dovetail/deployments/dovetail").expect()["spec"][
        "template"
    ]["spec"]["containers"]
    assert LEASE.items() <= {each["name"]: each.get("value") for each in installed["env"]}.items()
    assert definitions(cluster) == before, "no definition was touched"
    assert [move for change in story.since(began) for move in moves_of(change) if "karpenter-" not in move] == []


def definitions(cluster):
    """The definitions of custom resources, with their versions."""
    found = cluster.api.items("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
    return {each["metadata"]["name"]: each["metadata"]["generation"] for each in found}


def test_dovetail_leaves_alone_what_karpenter_built(story):
    story.hand_to(controller(story.cluster, **ACTING), "waiting to lead")
    story.watch()


def test_dovetail_scales_an_adopted_cluster_out_and_in(story):
    adopted = set(story.claims())
    story.scale(24)
    story.come_to_rest()
    assert adopted < set(story.claims()), "it grows, and what was there stays"
    before = story.claims("resting")
    story.scale(3)
    eventually(lambda: len(story.claims()) == 1, "one node carries what is left", within=120)
    story.come_to_rest()
    assert set(story.claims("resting")) == set(before), "nobody asked for these to move"


def test_karpenter_leaves_alone_what_dovetail_built(story):
    story.scale(10)
    story.come_to_rest()
    story.hand_to(karpenter(story.cluster, "karpenter-again"), "Attempting to acquire leader lease")
    story.watch()


def test_karpenter_scales_a_cluster_that_it_took_back(story):
    story.scale(2)
    eventually(lambda: len(story.claims()) == 1, "one node carries what is left", within=120)
    story.come_to_rest()


def test_dovetail_finishes_what_a_killed_karpenter_began(story):
    """The replacement of a drifted node is launched and not yet initialized: it is used, and no second one launched."""
    (old,) = story.claims()
    never_removed = {"key": "example.com/agent-not-ready", "effect": "NoSchedule"}
    story.change_template({"spec": {"startupTaints": [never_removed]}})
    eventually(lambda: len(story.claims()) == 2, "Karpenter launches a replacement", within=60)
    eventually(lambda: marks_on(story, old), "Karpenter marks the node", within=60)
    story.crash()
    story.hand_to(controller(story.cluster, **ACTING), "waiting to lead")
    eventually(lambda: not marks_on(story, old), "the marks of no command are removed", within=60)
    time.sleep(20)  # longer than a pass of disruption waits for anything
    assert len(story.claims()) == 2, "one node is old, one is its replacement"
    (new,) = set(story.claims()) - {old}
    node = story.claims()[new]["status"]["nodeName"]
    story.cluster.kubectl("taint", "node", node, f"{never_removed['key']}-")
    story.come_to_rest()
    assert set(story.claims()) == {new}


def marks_on(story, claim):
    """The marks of a disruption on a claim and its node."""
    found = [each for each in unrest(story.cluster) if "carries a mark" in each or "karpenter.sh/disrupt" in each]
    return [each for each in found if claim in each]


def test_a_template_that_changed_while_nobody_ran_is_rolled_out(story):
    old = set(story.claims())
    story.close()
    without_startup_taint = {"startupTaints": None}  # a replacement with the taint would never be initialized
    story.change_template({"metadata": {"labels": {"team": "a"}}, "spec": without_startup_taint})
    story.hand_to(karpenter(story.cluster, "karpenter-last"), "")
    eventually(lambda: not old & set(story.claims()), "the drifted node is replaced", within=60)
    assert {each["metadata"]["labels"].get("team") for each in story.claims().values()} == {"a"}
