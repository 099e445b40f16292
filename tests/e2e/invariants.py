"""The laws of the fault injection, judged from outside: over what the API server told of a real cluster.

The controller is not asked. `judged` looks back on a history; `unrest` says what keeps a cluster from rest.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from dovetail.cloud.kwok.catalog import select_catalog
from dovetail.model.duration import Duration
from dovetail.model.resources import ZERO, Quantity
from e2e.controlplane.stack import ControlPlane
from e2e.watching import Change, Plain

RECORD = "dovetail.sh/command"
REPLACES = "dovetail.sh/replaces"
PROTECTION = "karpenter.sh/do-not-disrupt"
POOL = "karpenter.sh/nodepool"
VOLUNTARY = {"Underutilized", "Empty", "Drifted", "Expired"}
CONSOLIDATION = {"Underutilized", "Empty"}
STUCK = 60.0  # seconds after which a pod that should have stopped is no longer waited for
STALE = 10.0  # seconds for which the controller may not know yet that somebody changed a NodePool


def condition(thing: Plain, kind: str) -> Plain | None:
    """A condition by its type."""
    return next((each for each in thing.get("status", {}).get("conditions") or () if each["type"] == kind), None)


def holds(thing: Plain, kind: str) -> bool:
    """Whether a condition is True."""
    found = condition(thing, kind)
    return found is not None and found["status"] == "True"


def deleting(thing: Plain | None) -> bool:
    """Whether it is on its way out."""
    return thing is not None and "deletionTimestamp" in thing["metadata"]


def record_of(claim: Plain | None) -> Plain | None:
    """The command that stands on a claim."""
    written = (claim or {"metadata": {}})["metadata"].get("annotations", {}).get(RECORD)
    return json.loads(written) if written else None


def capacity(claim: Plain) -> Plain:
    """What a claim's instance has, nothing before it is launched."""
    found: Plain = claim.get("status", {}).get("capacity") or {}
    return found


def voluntarily(claim: Plain | None) -> bool:
    """Whether a claim is marked for a reason that budgets govern."""
    record = record_of(claim)
    return record is not None and record["reason"] in VOLUNTARY


def hourly(catalog: str) -> dict[tuple[str, str, str], float]:
    """What everything costs an hour, by type, zone and capacity type."""
    return {
        (kind.name, offering.zone, offering.capacity_type): offering.price
        for kind in select_catalog(catalog)
        for offering in kind.offerings
    }


def price(thing: Plain, prices: Mapping[tuple[str, str, str], float]) -> float:
    """What the instance of a claim or node costs an hour, 0 before it is launched."""
    labels = thing["metadata"].get("labels", {})
    keys = ("node.kubernetes.io/instance-type", "topology.kubernetes.io/zone", "karpenter.sh/capacity-type")
    kind, zone, capacity_type = (labels.get(key, "") for key in keys)
    return prices.get((kind, zone, capacity_type), 0.0)


class Judge:
    """Goes through a history change by change."""

    def __init__(self, ceilings: Mapping[str, int], by_hand: Iterable[str], catalog: str) -> None:
        """`ceilings`: how many nodes of a pool may be away by choice. `by_hand`: pools whose claims people delete."""
        self._ceilings = ceilings
        self._by_hand = set(by_hand)
        self._prices = hourly(catalog)
        self._there: dict[str, dict[str, Plain]] = {}
        self._replacements: dict[str, dict[str, tuple[float, bool]]] = {}  # by command: price, was it ever ready
        self._candidates: dict[str, dict[str, float]] = {}
        self._limits: dict[str, list[tuple[float, Plain]]] = {}  # by pool, as they were written one after the other
        self._born_at: dict[str, float] = {}
        self._now = 0.0
        self._laws = {
            "NodePool": self._pool,
            "NodeClaim": self._claim,
            "Node": self._node,
            "Pod": self._pod,
            "PodDisruptionBudget": self._budget,
        }
        self.broken: list[str] = []
        self._met_once: set[str] = set()  # budgets that had all they want
        self.evicted: list[Plain] = []
        self.most_away: dict[str, int] = {}

    def hear(self, change: Change) -> None:
        """Judge a change by what was there before it, then take it in."""
        there = self._there.setdefault(change.kind, {})
        uid = change.thing["metadata"]["uid"]
        self._now = change.seen_at
        if change.after is None:
            there.pop(uid, None)
        else:
            there[uid] = change.after
        law = self._laws.get(change.kind)
        if law is not None:
            law(change.before, change.after)

    def _all(self, kind: str) -> Iterable[Plain]:
        return self._there.get(kind, {}).values()

    def _pool(self, _: Plain | None, after: Plain | None) -> None:
        if after is not None:
            written = self._limits.setdefault(after["metadata"]["name"], [])
            limits = after["spec"].get("limits") or {}
            if not written or written[-1][1] != limits:
                written.append((self._now, limits))

    def _claim(self, before: Plain | None, after: Plain | None) -> None:
        if after is None:
            return
        self._born_at.setdefault(after["metadata"]["uid"], self._now)
        self._note_command(after)
        if capacity(after) and not (before and capacity(before)) and not deleting(after):
            self._within_limits(after)
        if voluntarily(after) and not voluntarily(before) and not deleting(after):
            self._within_budget(after)
        if deleting(after) and before is not None and not deleting(before):
            self._has_a_cause(after)

    def _note_command(self, claim: Plain) -> None:
        uid, record = claim["metadata"]["uid"], record_of(claim)
        if record is not None:
            self._candidates.setdefault(record["id"], {})[uid] = price(claim, self._prices)
        command = claim["metadata"].get("annotations", {}).get(REPLACES)
        if command:
            made = self._replacements.setdefault(command, {})
            was_ready = made.get(uid, (0.0, False))[1]
            made[uid] = (price(claim, self._prices), was_ready or holds(claim, "Initialized"))

    def _within_limits(self, claim: Plain) -> None:
        """What was launched keeps the loosest limits that could have been known when its claim was made."""
        name, pool = claim["metadata"]["name"], claim["metadata"]["labels"][POOL]
        since = self._born_at[claim["metadata"]["uid"]] - STALE
        written = self._limits.get(pool, [])
        old = max((number for number, (at, _) in enumerate(written) if at <= since), default=0)
        versions = [limits for _, limits in written[old:]]
        there = [each for each in self._all("NodeClaim") if each["metadata"]["labels"][POOL] == pool]
        staying = [{**capacity(each), "nodes": "1"} for each in there if not deleting(each)]
        for resource in set.intersection(*map(set, versions)) if versions else ():
            used = sum((Quantity.parse(str(each[resource])) for each in staying if resource in each), ZERO)
            limit = max(Quantity.parse(str(each[resource])) for each in versions)
            if used > limit:
                self.broken.append(f"limits of {pool}: {name} makes it {used} of {resource}, and {limit} is the limit")

    def _within_budget(self, claim: Plain) -> None:
        pool = claim["metadata"]["labels"][POOL]
        away = [
            each["metadata"]["name"]
            for each in self._all("NodeClaim")
            if each["metadata"]["labels"][POOL] == pool and voluntarily(each) and not holds(each, "InstanceTerminating")
        ]
        self.most_away[pool] = max(self.most_away.get(pool, 0), len(away))
        if pool in self._ceilings and len(away) > self._ceilings[pool]:
            self.broken.append(f"budget of {pool}: {', '.join(away)} are away, {self._ceilings[pool]} may be")

    def _has_a_cause(self, claim: Plain) -> None:
        name, record = claim["metadata"]["name"], record_of(claim)
        if record is None:
            if holds(claim, "Registered") and claim["metadata"]["labels"][POOL] not in self._by_hand:
                self.broken.append(f"{name} is deleted, and nothing says why")
            return
        made = self._replacements.get(record["id"], {})
        if sum(ready for _, ready in made.values()) < record["replacements"]:
            self.broken.append(f"{name} goes before its {record['replacements']} replacements are ready")
        before, after = sum(self._candidates[record["id"]].values()), sum(cost for cost, _ in made.values())
        if record["reason"] in CONSOLIDATION and made and after >= before:
            self.broken.append(f"{name} {record['reason']}: {before:.4f} an hour became {after:.4f}")

    def _node(self, before: Plain | None, after: Plain | None) -> None:
        if after is not None or before is None:
            return
        name = before["metadata"]["name"]
        if before["metadata"].get("labels", {}).get(POOL) in self._by_hand:
            return
        for pod in self._all("Pod"):
            if pod["spec"].get("nodeName") == name and pod["status"].get("phase") not in {"Succeeded", "Failed"}:
                if any(owner["kind"] in {"DaemonSet", "Node"} for owner in pod["metadata"].get("ownerReferences", ())):
                    continue
                if self._stuck(pod):
                    continue
                self.broken.append(f"pod {pod['metadata']['name']} was still on {name} when it ended")

    def _stuck(self, pod: Plain) -> bool:
        """Whether it should have ended more than a minute ago: no drain waits for that any longer."""
        ends_at = pod["metadata"].get("deletionTimestamp")
        return ends_at is not None and self._now - datetime.fromisoformat(ends_at).timestamp() > STUCK

    def _pod(self, before: Plain | None, after: Plain | None) -> None:
        if after is None or not deleting(after) or deleting(before):
            return
        target = condition(after, "DisruptionTarget")
        if target is None or target.get("reason") != "EvictionByEvictionAPI":
            return
        self.evicted.append(after)
        name = after["spec"]["nodeName"]
        node = next((each for each in self._all("Node") if each["metadata"]["name"] == name), None)
        claims = [each for each in self._all("NodeClaim") if each.get("status", {}).get("nodeName") == name]
        if node is not None and not deleting(node) and not any(map(deleting, claims)):
            self.broken.append(f"pod {after['metadata']['name']} is evicted from {name}, which stays")
        if _protected(after) and not any("terminationGracePeriod" in claim["spec"] for claim in claims):
            self.broken.append(f"pod {after['metadata']['name']} is evicted, and is protected")

    def _budget(self, before: Plain | None, after: Plain | None) -> None:
        was, now = ((each or {}).get("status") or {} for each in (before, after))
        healthy, wanted = now.get("currentHealthy", 0), now.get("desiredHealthy", 0)
        about = (after or before or {})["metadata"]["uid"]
        if healthy >= wanted > 0:
            self._met_once.add(about)  # before, pods come up, and some falter: nobody took them away
        fell = healthy < was.get("currentHealthy", 0) and healthy < wanted <= was.get("desiredHealthy", 0)
        if fell and about in self._met_once:
            assert after is not None
            self.broken.append(f"disruption budget {after['metadata']['name']}: {healthy} healthy, {wanted} wanted")


def _protected(pod: Plain) -> bool:
    """Whether it was when it was told to stop."""
    written = pod["metadata"].get("annotations", {}).get(PROTECTION)
    if written in {None, "false"}:
        return False
    try:
        span = Duration.parse(written).span
    except ValueError:
        return True
    told_at = datetime.fromisoformat(pod["metadata"]["deletionTimestamp"]) - timedelta(
        seconds=pod["metadata"]["deletionGracePeriodSeconds"]
    )
    created_at = datetime.fromisoformat(pod["metadata"]["creationTimestamp"])
    return told_at.astimezone(UTC) < created_at + span


def judged(
    history: Iterable[Change], ceilings: Mapping[str, int], by_hand: Iterable[str] = (), catalog: str = "generic"
) -> Judge:
    """A history, judged from its beginning to its end."""
    judge = Judge(ceilings, by_hand, catalog)
    for change in history:
        judge.hear(change)
    return judge


def unrest(cluster: ControlPlane) -> list[str]:
    """What keeps a cluster from being at rest: homeless pods, leaks, marks, unfinished business."""
    claims = cluster.api.items("/apis/karpenter.sh/v1/nodeclaims")
    nodes = {node["spec"].get("providerID"): node for node in cluster.api.items("/api/v1/nodes")}
    return [*_waiting(cluster), *_unfinished(claims, nodes), *_marks(claims, nodes.values())]


def _waiting(cluster: ControlPlane) -> Iterable[str]:
    for deployment in cluster.api.items("/apis/apps/v1/deployments"):
        wanted, status = deployment["spec"]["replicas"], deployment["status"]
        if not status.get("replicas", 0) == status.get("readyReplicas", 0) == wanted:
            yield f"{status.get('readyReplicas', 0)} of {wanted} pods of {deployment['metadata']['name']} run"


def _unfinished(claims: list[Plain], nodes: Mapping[str, Plain]) -> Iterable[str]:
    owned = [claim["status"].get("providerID") for claim in claims]
    for instance, node in nodes.items():
        if instance not in owned:
            yield f"node {node['metadata']['name']} belongs to no claim"
        if deleting(node):
            yield f"node {node['metadata']['name']} is on its way out"
        if "karpenter.sh/termination" not in node["metadata"].get("finalizers", ()):
            yield f"node {node['metadata']['name']} would go undrained"
    for claim in claims:
        if deleting(claim):
            yield f"{claim['metadata']['name']} is on its way out"
        elif claim["status"].get("providerID") not in nodes:
            yield f"{claim['metadata']['name']} has no node"
        elif not holds(claim, "Ready"):
            yield f"{claim['metadata']['name']} is not ready"
    if len(set(owned)) < len(owned):
        yield "two claims share an instance"


def _marks(claims: list[Plain], nodes: Iterable[Plain]) -> Iterable[str]:
    for claim in claims:
        if record_of(claim) is not None or condition(claim, "DisruptionReason") is not None:
            yield f"{claim['metadata']['name']} carries a mark"
    for node in nodes:
        for taint in node["spec"].get("taints", ()):
            if taint["key"].startswith(("karpenter.sh/disrupt", "karpenter.sh/unregistered")):
                yield f"node {node['metadata']['name']} has the taint {taint['key']}"
