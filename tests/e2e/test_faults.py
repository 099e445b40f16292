"""A rollout on a real cluster while processes are killed, restarted and stopped; the laws hold, and it ends well.

Every node of a pool drifts, two may be away at once, and each goes only after its replacement is ready. Histories are
those of the API server's own watches; see invariants.py.
"""

import json
import os
import random
import signal
import time
from contextlib import ExitStack, contextmanager

import pytest

from e2e.controlplane.api import eventually
from e2e.invariants import holds, judged, record_of, unrest
from e2e.leaving import budget, deployment, pool, stage
from e2e.running import ALONE, DOVETAIL, controller
from e2e.watching import Watcher

REPLICAS = 12  # three to a node
AWAY = 2
ALONE_AND_ACTING = {
    "DOVETAIL_DISRUPTION": "on",
    "DOVETAIL_CATALOG": "generic",
    "DISABLE_LEADER_ELECTION": "true",  # the next one must not wait for the Lease of the one that was killed
}


def drifting(label):
    """The pool again, with another template: what stands has drifted."""
    made = pool(disruption={"consolidateAfter": "Never", "budgets": [{"nodes": str(AWAY)}]})
    made["spec"]["template"]["metadata"] = {"labels": {"version": label}}
    return made


def launch(cluster, name, **variables):
    environment = {**os.environ, **ALONE, "DOVETAIL_LOG_FORMAT": "text", **ALONE_AND_ACTING, **variables}
    return cluster.launch(name, DOVETAIL, "run", "--kubeconfig", str(cluster.kubeconfig), env=environment)


def staged(cluster, namespace):
    """Four full nodes, a budget for pods, and nothing that wants to move."""
    manifests = (drifting("old"), deployment(REPLICAS), budget(maxUnavailable=4))
    with controller(cluster, **ALONE_AND_ACTING):
        stage(cluster, namespace, *manifests, replicas=REPLICAS)


def drift(cluster):
    cluster.kubectl("apply", "-f", "-", input=json.dumps(drifting("new")))


def rolled_out(cluster):
    """Every node is of the new template, and nothing is left behind."""
    nodes = cluster.api.items("/api/v1/nodes")
    return nodes and all(each["metadata"]["labels"].get("version") == "new" for each in nodes) and not unrest(cluster)


def lawful(watcher):
    judge = judged(watcher.history(), {"default": AWAY})
    assert judge.broken == []
    assert len(judge.evicted) >= REPLICAS, "every pod had to move"
    assert judge.most_away["default"] == AWAY


@contextmanager
def witnessed(cluster, namespace):
    """A rollout from its first moment until it is over; what happens within is the fault."""
    staged(cluster, namespace)
    with Watcher(cluster) as watcher:
        drift(cluster)
        yield watcher
    lawful(watcher)


def await_rollout(cluster):
    eventually(lambda: rolled_out(cluster), "the rollout is over", within=150, every=0.5)


MOMENTS = {
    "a node is marked": record_of,
    "a replacement is made": lambda claim: "dovetail.sh/replaces" in claim["metadata"].get("annotations", {}),
    "a replacement is ready": lambda claim: (
        "dovetail.sh/replaces" in claim["metadata"].get("annotations", {}) and holds(claim, "Initialized")
    ),
    "there is no way back": lambda claim: (record_of(claim) or {}).get("committed"),
    "a node drains": lambda claim: "deletionTimestamp" in claim["metadata"],
}


def come(watcher, moment, seen):
    """Whether a claim that was not in this state at an earlier kill is now."""
    for claim in watcher.now("NodeClaim"):
        key = (moment, claim["metadata"]["uid"])
        if key not in seen and MOMENTS[moment](claim):
            seen.add(key)
            return True
    return False


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_killed_at_random_moments_of_commands_the_next_process_goes_on(seed, prepared, namespace):
    cluster, dice = prepared, random.Random(seed)  # noqa: S311 - reproducible, not secret
    with ExitStack() as stack:
        watcher = stack.enter_context(witnessed(cluster, namespace))
        process = launch(cluster, f"killed-{namespace}")
        stack.callback(process.kill)
        seen = set()
        for _ in range(4):
            moment = dice.choice(list(MOMENTS))
            deadline = time.monotonic() + 20
            while not come(watcher, moment, seen) and time.monotonic() < deadline and not rolled_out(cluster):
                time.sleep(0.02)
            time.sleep(dice.choice((0, 0, 0.05, 0.2, 0.6)))
            process.kill()
            process.start()
        await_rollout(cluster)
        assert process.exit_code is None, process.tail()


def test_a_restarted_api_server_and_a_store_that_hangs_only_cost_time(prepared, namespace):
    cluster = prepared
    with witnessed(cluster, namespace) as watcher, controller(cluster, **ALONE_AND_ACTING) as process:
        eventually(lambda: come(watcher, "a node is marked", set()), "it has begun", within=30)
        cluster.restart_apiserver()
        eventually(lambda: come(watcher, "a replacement is ready", set()), "it goes on", within=60)
        cluster.signal_component("etcd", signal.SIGSTOP)
        time.sleep(6)  # requests hang, and time out
        cluster.signal_component("etcd", signal.SIGCONT)
        await_rollout(cluster)
        assert "Traceback" not in process.log.read_text(), process.tail(60)


def test_the_other_replica_finishes_what_a_killed_leader_began(prepared, namespace):
    cluster = prepared
    lease = {"DISABLE_LEADER_ELECTION": "false"}
    with ExitStack() as stack:
        watcher = stack.enter_context(witnessed(cluster, namespace))
        first = launch(cluster, f"first-{namespace}", **lease)
        stack.callback(first.kill)
        eventually(lambda: " leading" in first.log.read_text(), "the first leads", within=30)
        second = launch(cluster, f"second-{namespace}", **lease)
        stack.callback(second.kill)
        eventually(lambda: come(watcher, "a replacement is made", set()), "a command is under way", within=30)
        first.kill()
        eventually(lambda: " leading" in second.log.read_text(), "the second leads", within=40)
        await_rollout(cluster)
        assert second.exit_code is None, second.tail()
