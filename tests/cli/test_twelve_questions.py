"""The twelve questions of an SRE: one command each, and the right answer in the first three lines.

The truth is derived here from the snapshot as plain YAML, with no code of Dovetail: which pods a PodDisruptionBudget
selects, when a protection or a budget window ends, which filter each node fails, what the nodes cost.
"""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from dovetail.cli.app import app
from dovetail.core.savings import NEVER_EXPIRES
from dovetail.observe.ledger import SqliteLedger
from dovetail.ports.ledger import DecisionOutcome, LedgerAction, LedgerEnding, LedgerEntry, LedgerNode

PATH = Path(__file__).parents[2] / "examples" / "snapshots" / "weekday.yaml"
SNAPSHOT = yaml.safe_load(PATH.read_text())
NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)  # a Monday
PROTECTED = "karpenter.sh/do-not-disrupt"
ZONE, CAPACITY_TYPE = "topology.kubernetes.io/zone", "karpenter.sh/capacity-type"


# -- the truth


def objects(kind):
    return {each["metadata"]["name"]: each for each in SNAPSHOT["objects"] if each["kind"] == kind}


NODES, CLAIMS, POOLS, PODS = (objects(kind) for kind in ("Node", "NodeClaim", "NodePool", "Pod"))
PDBS = objects("PodDisruptionBudget")


def pool_of(name):
    return NODES[name]["metadata"]["labels"]["karpenter.sh/nodepool"]


def pods_on(node):
    return [each for each in PODS.values() if each["spec"].get("nodeName") == node]


def selected(pdb, pods):
    wanted = pdb["spec"]["selector"]["matchLabels"].items()
    own = pdb["metadata"]["namespace"]
    return [
        each
        for each in pods
        if each["metadata"]["namespace"] == own and wanted <= each["metadata"].get("labels", {}).items()
    ]


def exhausted_pdbs(node):
    """The PodDisruptionBudgets that allow no eviction, with the number of their pods on a node."""
    found = {}
    for name, pdb in PDBS.items():
        pods = selected(pdb, pods_on(node))
        if pods and not pdb["status"].get("disruptionsAllowed", 0):
            found[f"{pdb['metadata']['namespace']}/{name}"] = pods
    return found


def protection_ends(pod):
    """The annotation is a number of hours, counted from the creation of the pod."""
    written = pod["metadata"].get("annotations", {}).get(PROTECTED)
    if written is None:
        return None
    hours = int(re.fullmatch(r"(\d+)h", written).group(1))
    return datetime.fromisoformat(pod["metadata"]["creationTimestamp"]) + timedelta(hours=hours)


def window_ends(pool):
    """The end of the window of zero nodes that is open now: `0 H * * mon-fri` for a number of hours."""
    (closed,) = [each for each in POOLS[pool]["spec"]["disruption"]["budgets"] if each["nodes"] == "0"]
    minute, hour, *_, days = closed["schedule"].split()
    assert (minute, days) == ("0", "mon-fri")
    start = NOW.replace(hour=int(hour))
    end = start + timedelta(hours=int(closed["duration"].removesuffix("h")))
    assert start <= NOW < end
    return end


def free_of_pod_blocks(node):
    return not exhausted_pdbs(node) and not any(protection_ends(each) for each in pods_on(node))


def price(node):
    labels = NODES[node]["metadata"]["labels"]
    types = {each["name"]: each for each in SNAPSHOT["catalogs"][0]["instanceTypes"]}
    keys = (CAPACITY_TYPE, ZONE)
    for offering in types[labels["node.kubernetes.io/instance-type"]]["offerings"]:
        if all(offering["labels"][key] == labels[key] for key in keys):
            return offering["price"]
    raise AssertionError(f"{node} has no price")


# -- the answers


def answer(*arguments):
    """The first three lines of a command."""
    result = CliRunner().invoke(app, [*arguments, "--snapshot", str(PATH)])
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()[:3]


def test_the_snapshot_is_what_this_file_takes_it_for():
    assert SNAPSHOT["metadata"]["at"] == "2026-01-05T12:00:00Z"
    assert NOW.strftime("%a") == "Mon"
    assert len(NODES) == len(CLAIMS) == 9


def test_why_is_the_node_still_here():
    ((pdb, pods),) = exhausted_pdbs("general-1").items()
    (ends,) = [end for each in pods_on("general-1") if (end := protection_ends(each)) is not None]
    assert ends > NOW
    line = answer("explain", "node", "general-1")[0]
    assert line.startswith(f"Stays: PDB {pdb} allows no eviction ({len(pods)} pods)")
    assert f"pod ci/build-7 is protected until {ends:%H:%M} UTC" in line
    assert "budget" not in line  # with a wider one it would stay as well


@pytest.mark.parametrize("node", ["general-5", "general-7"])
def test_when_will_it_go(node):
    assert free_of_pod_blocks(node)
    line = answer("explain", "node", node)[0]
    assert line.startswith(f"Can leave from {window_ends('general'):%H:%M} UTC by single-node consolidation")


def test_a_node_whose_pod_can_never_be_evicted_stays_although_it_expires():
    """A PodDisruptionBudget for one replica never allows an eviction, and no terminationGracePeriod ends the drain."""
    ((pdb, pods),) = exhausted_pdbs("general-6").items()
    status = PDBS[pdb.partition("/")[2]]["status"]
    assert status["desiredHealthy"] == status["expectedPods"] == len(pods) == 1
    claim = CLAIMS["general-6"]
    assert "terminationGracePeriod" not in claim["spec"]
    hours = int(claim["spec"]["expireAfter"].removesuffix("h"))
    expires = datetime.fromisoformat(claim["metadata"]["creationTimestamp"]) + timedelta(hours=hours)
    line = answer("explain", "node", "general-6")[0]
    assert line.startswith(f"Stays: PDB {pdb} never allows an eviction")
    assert line.endswith(f"; expires {expires:%a %d %b %H:%M} UTC.")


def test_why_is_the_node_about_to_be_removed():
    (node,) = [name for name in NODES if not pods_on(name)]
    month = price(node) * 730
    assert answer("explain", "node", node)[0] == f"Leaves now: Empty, deleted, saves ${month:,.2f} a month."


def test_why_is_the_pod_pending():
    """kube-scheduler checks taints before the node selector: a tainted node counts with its taint."""
    (wanted,) = PODS["train-1"]["spec"]["nodeSelector"].items()
    assert "tolerations" not in PODS["train-1"]["spec"]
    tainted = [name for name, node in NODES.items() if node["spec"].get("taints")]
    elsewhere = [name for name in {*NODES} - {*tainted} if wanted not in NODES[name]["metadata"]["labels"].items()]
    assert len(tainted) + len(elsewhere) == len(NODES)
    assert answer("explain", "pod", "ml/train-1")[0] == (
        f"Pending: 0/{len(NODES)} nodes are available: "
        f"{len(tainted)} node(s) had untolerated taint {{dedicated=batch:NoSchedule}}, "
        f"{len(elsewhere)} node(s) didn't match Pod's node affinity/selector; no new node can take it."
    )


def test_what_does_it_cost():
    hour = sum(map(price, NODES))
    lines = answer("top", "--once")
    assert f"${hour:,.3f}/h ${hour * 730:,.2f} a month" in lines[1]


def test_is_a_budget_blocking():
    """Nodes with pods that may be evicted, in a pool whose window of zero nodes is open. An empty node is not in it."""
    held = [name for name in NODES if pool_of(name) == "general" and pods_on(name) and free_of_pod_blocks(name)]
    line = answer("explain", "nodepool", "general")[1]
    assert line.startswith("Held back by a budget: budget 2 of 2 ('0') of NodePool general allows 0 of 7 nodes")
    assert line.endswith(f"until {window_ends('general'):%H:%M} UTC (on {len(held)} nodes)")
    assert answer("explain", "nodepool", "batch")[1] == "Held back by a budget: none"


def test_what_drifts():
    spec = POOLS["general"]["spec"]["template"]["spec"]
    allowed = {each["key"]: each["values"] for each in spec["requirements"]}
    (other,) = [
        name
        for name in NODES
        if pool_of(name) == "general" and NODES[name]["metadata"]["labels"][CAPACITY_TYPE] not in allowed[CAPACITY_TYPE]
    ]
    (older,) = [
        name
        for name, claim in CLAIMS.items()
        if pool_of(name) == "general" and claim["spec"]["expireAfter"] != spec["expireAfter"]
    ]
    line = answer("explain", "nodepool", "general")[2]
    had = NODES[other]["metadata"]["labels"][CAPACITY_TYPE]
    assert f"node {other} (RequirementsDrifted: {CAPACITY_TYPE}: {had} -> In [{allowed[CAPACITY_TYPE][0]}])" in line
    before, after = CLAIMS[older]["spec"]["expireAfter"], spec["expireAfter"]
    assert f"node {older} (NodePoolDrifted: spec.template.spec.expireAfter: {before} -> {after})" in line
    assert line.count("node general-") == 2


def test_which_pods_block():
    ((pdb, (pod,)),) = exhausted_pdbs("general-6").items()
    named = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    assert f"PDB {pdb} never allows an eviction (pod {named})" in answer("explain", "node", "general-6")[0]


def test_is_it_safe_to_turn_on():
    """Every object is one that Dovetail knows, and no NodePool has a field that it does not support."""
    assert {each["kind"] for each in SNAPSHOT["objects"]} == {
        "NodePool",
        "NodeClaim",
        "Node",
        "Pod",
        "PodDisruptionBudget",
    }
    assert answer("adopt")[0].startswith("Ready to switch: yes")


def test_what_happens_in_my_window():
    """25% of seven nodes rounds up to two; the window of zero nodes is for two of the three reasons."""
    everyone, closed = POOLS["general"]["spec"]["disruption"]["budgets"]
    number = sum(pool_of(name) == "general" for name in NODES)
    allowed = -(-number * int(everyone["nodes"].removesuffix("%")) // 100)
    assert sorted(closed["reasons"]) == ["Drifted", "Underutilized"]
    assert answer("budgets", "general")[0] == (
        f"Now, of {number} nodes: Drift and Consolidation 0 until {window_ends('general'):%H:%M} UTC, then {allowed}; "
        f"Emptiness {allowed}."
    )


class NoonClock:
    def now(self):
        return NOW


def test_how_much_was_saved(tmp_path):
    """general-1 was gone from 02:00 on, and nothing was launched in its place until noon."""
    path, decided = tmp_path / "ledger.db", NOW - timedelta(hours=11)
    ledger = SqliteLedger(path, NoonClock(), cluster="https://one")
    ledger.start()
    removed = LedgerNode(nodeclaim="general-1", nodepool="general", price=price("general-1"), expires_at=NEVER_EXPIRES)
    ledger.open(
        LedgerEntry(id="c0ffee", at=decided, act=LedgerAction.DISRUPT, reason="Empty", why="empty", nodes=(removed,))
    )
    ledger.close("c0ffee", LedgerEnding(outcome=DecisionOutcome.DONE, at=decided))
    ledger.gone("c0ffee", "general-1", NOW - timedelta(hours=10))
    ledger.stop(30)
    saved, command = 10 * price("general-1"), ["history", "--ledger", str(path), "--until", NOW.isoformat()]
    figure, text = (CliRunner().invoke(app, [*command, "-o", form]) for form in ("jsonpath={.savings.saved}", "text"))
    assert float(figure.stdout) == pytest.approx(saved)
    assert f"1 command saved ${saved:,.2f} until 2026-01-05 12:00:00 UTC." in "\n".join(text.stdout.splitlines()[:3])


def test_why_was_it_removed(tmp_path):
    """The empty node is gone, and the ledger has the decision of two hours ago."""
    (node,) = [name for name in NODES if not pods_on(name)]
    without = {**SNAPSHOT, "objects": [each for each in SNAPSHOT["objects"] if each["metadata"]["name"] != node]}
    snapshot, path = tmp_path / "after.yaml", tmp_path / "ledger.db"
    snapshot.write_text(yaml.safe_dump(without))
    decided = NOW - timedelta(hours=2)
    ledger = SqliteLedger(path, NoonClock(), cluster="https://one")
    ledger.start()
    removed = LedgerNode(nodeclaim=node, node=node, nodepool=pool_of(node), price=price(node), expires_at=NEVER_EXPIRES)
    entry = LedgerEntry(
        id="c0ffee",
        at=decided,
        act=LedgerAction.DISRUPT,
        reason="Empty",
        why=f"delete: [{node}]",
        method="emptiness",
        nodes=(removed,),
    )
    ledger.open(entry)
    ledger.close("c0ffee", LedgerEnding(outcome=DecisionOutcome.DONE, at=decided))
    ledger.gone("c0ffee", node, decided)
    ledger.stop(30)
    command = ["explain", "node", node, "--ledger", str(path), "--snapshot", str(snapshot)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    first, second, why = result.stdout.splitlines()[:3]
    assert first == f"Node {node}: Removed 2h ago: Empty, by emptiness, decision c0ffee."
    assert second.startswith(f"{decided:%H:%M} UTC; saved ${2 * price(node):,.2f} until 2026-01-05 12:00:00 UTC")
    assert why == f"delete: [{node}]"


def test_what_if_consolidate_after_were_five_minutes(tmp_path):
    """Pods left the empty node seven minutes ago: it waits for the ten minutes of its NodePool, but not for five."""
    (node,) = [name for name in NODES if not pods_on(name)]
    assert POOLS[pool_of(node)]["spec"]["disruption"]["consolidateAfter"] == "10m"
    left_at = f"{NOW - timedelta(minutes=7):%Y-%m-%dT%H:%M:%SZ}"
    recent = {**CLAIMS[node], "status": {**CLAIMS[node]["status"], "lastPodEventTime": left_at}}
    changed = [recent if each == CLAIMS[node] else each for each in SNAPSHOT["objects"]]
    snapshot = tmp_path / "recent.yaml"
    snapshot.write_text(yaml.safe_dump({**SNAPSHOT, "objects": changed}))
    result = CliRunner().invoke(
        app, ["what-if", "--snapshot", str(snapshot), "--set", "spec.disruption.consolidateAfter=5m"]
    )
    assert result.exit_code == 0, result.output
    cost = sum(map(price, NODES))
    first, *changes = result.stdout.splitlines()[:3]
    assert first == (
        "The next pass removes 1 node instead of 0; "
        f"${cost - price(node):,.2f} an hour after it instead of ${cost:,.2f}."
    )
    waits = {name: pool["spec"]["disruption"]["consolidateAfter"] for name, pool in POOLS.items()}
    assert changes == [
        f"  NodePool {name}, spec.disruption.consolidateAfter: {wait} -> 5m" for name, wait in sorted(waits.items())
    ]
