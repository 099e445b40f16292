"""Texts of verdicts: the answers about nodes and pods that `explain`, `plan`, `top` and the dashboard begin with.

A verdict is one line. Obstacles in it are shorter than in lists, and have the time they end in them.
"""

from datetime import datetime

from dovetail.core.wording import message, nodes_words, obstacle
from dovetail.model.instants import moment
from dovetail.model.kube_object import Key
from dovetail.model.refusal import Refusal, RefusalCode, SpentBudget
from dovetail.model.verdict import (
    DriftCause,
    DriftedNodes,
    FieldChange,
    HeldNodes,
    LabelMismatch,
    NodeVerdict,
    ObstacleGroup,
    Outcome,
    PodOutcome,
    PodVerdict,
    PoolVerdict,
)

_EXPIRATION = "expiration"
_METHODS = {"multi-node": "multi-node consolidation", "single-node": "single-node consolidation"}
MOST_CLAUSES = 3
"""How many obstacles a verdict names; the rest is counted."""
MOST_CHANGES = 2
MOST_USERS = 3
"""How many nodes that use up a budget are named."""


def verdict_line(verdict: NodeVerdict, now: datetime) -> str:
    """The verdict on a node in one line: whether it leaves, when and how, and what it waits for."""
    because = because_of(verdict, now)
    expires = f"; {_expires(verdict.expires_at, now)} {moment(verdict.expires_at, now)}" if verdict.expires_at else ""
    between = ("; until then " if _ends_by_expiring(verdict) else ": ") * bool(because)
    return f"{_lead(verdict, now)}{between}{because}{expires}"


def _ends_by_expiring(verdict: NodeVerdict) -> bool:
    """Whether the obstacles do not end before the node expires: they are those of other ways to leave."""
    blocked = {method for each in verdict.obstacles for method in each.methods}
    return verdict.method == _EXPIRATION and bool(blocked) and _EXPIRATION not in blocked


def _expires(at: datetime, now: datetime) -> str:
    return "expires" if at > now else "expired"


def _lead(verdict: NodeVerdict, now: datetime) -> str:
    if verdict.outcome is Outcome.LEAVES:
        return "Leaves now"
    if verdict.outcome is not Outcome.CAN_LEAVE:
        return str(verdict.outcome)
    when = "in a later pass" if verdict.at is None else f"from {moment(verdict.at, now)}"
    return f"Can leave {when} by {_METHODS.get(verdict.method, verdict.method)}{_drifted(verdict)}"


def because_of(verdict: NodeVerdict, now: datetime) -> str:
    """What a node waits for, what keeps it, or what its command does with it."""
    if verdict.after:
        return f"{verdict.after} goes first"
    if verdict.outcome is Outcome.LEAVES:
        return _command_words(verdict)
    clauses = [clause(each, now) for each in verdict.obstacles] or ["another command goes first"]
    more = f"{len(clauses) - MOST_CLAUSES} more" if len(clauses) > MOST_CLAUSES else ""
    return "; ".join(filter(None, [*clauses[:MOST_CLAUSES], more]))


def _command_words(verdict: NodeVerdict) -> str:
    number = verdict.replacements
    replaced = f"replaced by {number} node{'s' * (number != 1)}" if number else "deleted"
    together = f" together with {verdict.together - 1} more" if verdict.together > 1 else ""
    saving = worth(verdict.saving_per_month, verdict.unpriced)
    return f"{verdict.reason}{_drifted(verdict)}, {replaced}{together}, {saving}"


def _drifted(verdict: NodeVerdict) -> str:
    return f" ({drift_words(verdict.drift)})" if verdict.drift is not None and verdict.method == "drift" else ""


def worth(saving: float, unpriced: int = 0) -> str:
    """A monthly saving: `saves $7.30 a month`, or `costs $7.30 a month more`; not known without prices of nodes."""
    if unpriced and saving <= 0:
        return f"saving not known, because the price of {_nodes(unpriced)} is not known"
    if unpriced:
        return f"saves ${saving:,.2f} a month, not counting {_nodes(unpriced)} of unknown price"
    return f"saves ${saving:,.2f} a month" if saving >= 0 else f"costs ${-saving:,.2f} a month more"


def drift_words(cause: DriftCause) -> str:
    """What drifted: the fields, old -> new where known."""
    changed = "; ".join(change_words(each) for each in cause.changes[:MOST_CHANGES])
    more = f"; {len(cause.changes) - MOST_CHANGES} more" if len(cause.changes) > MOST_CHANGES else ""
    said = f"{changed}{more}" or cause.detail
    return f"{cause.reason}: {said}" if said else cause.reason


def change_words(change: FieldChange) -> str:
    """One field that changed."""
    return f"{change.field}: {change.old} -> {change.new}" if change.old or change.new else change.field


def clause(group: ObstacleGroup, now: datetime) -> str:
    """An obstacle in a few words, with the time it ends."""
    refusal = group.refusal
    lasts = f" until {moment(refusal.until, now)}" if refusal.until is not None else ""
    if refusal.code is RefusalCode.POD_DISRUPTION_BUDGET:
        return _pdb_clause(refusal, group.pods)
    if refusal.code is RefusalCode.DO_NOT_DISRUPT_POD:
        fault = f" (its annotation cannot be understood: {refusal.detail})" if refusal.detail else ""
        return f"pod {refusal.pod} is protected{lasts or ' permanently'}{fault}"
    if refusal.code is RefusalCode.BUDGET:
        return f"{_budget_clause(refusal)}{lasts}"
    if refusal.code is RefusalCode.NEVER and refusal.until is not None:
        at = refusal.until
        return f"{_expires(at, now)} after {refusal.setting}, at {moment(at, now)}, regardless of budgets"
    return f"{obstacle(refusal)}{lasts}"


def _budget_clause(refusal: Refusal) -> str:
    assert refusal.budget is not None, "a budget that is spent is named"
    spent = refusal.budget
    place = f" {spent.number} of {spent.of} ({spent.nodes!r})" if spent.of > 1 else f" {spent.nodes!r}"
    total = f" of {spent.total}" if spent.total else ""
    noun = "node" if (spent.total or spent.limit) == 1 else "nodes"
    allows = f"{'will allow' if spent.later else 'allows'} {spent.limit}{total} {noun}"
    use = f", {_in_use(spent)}" if spent.disrupting else ""
    ahead = f", taken by {spent.ahead} other{'s' * (spent.ahead != 1)} first" if spent.ahead else ""
    return f"budget{place} of NodePool {refusal.nodepool} {allows}{use}{ahead}"


def _in_use(spent: SpentBudget) -> str:
    if not spent.users:
        return f"{spent.disrupting} in use"
    more = f" and {len(spent.users) - MOST_USERS} more" if len(spent.users) > MOST_USERS else ""
    named = ", ".join(spent.users[:MOST_USERS])
    return f"in use by node{'s' * (len(spent.users) != 1)} {named}{more}"


def _pdb_clause(refusal: Refusal, pods: tuple[Key, ...]) -> str:
    number = f"pod {pods[0]}" if len(pods) == 1 else f"{len(pods)} pods"
    names = " and ".join(map(str, refusal.pdbs))
    if refusal.detail:
        return f"PDB {names} cannot be read ({number}): {refusal.detail}"
    if len(refusal.pdbs) > 1:
        return f"PDBs {names} select the same pods, which blocks every eviction ({number})"
    return f"PDB {names} {'never allows an' if refusal.permanent else 'allows no'} eviction ({number})"


def pod_line(verdict: PodVerdict, now: datetime) -> str:
    """The verdict on a pod in one line: where it runs and whether it can be evicted, or why it is pending."""
    if verdict.outcome is PodOutcome.RUNS:
        blocks = "; ".join(clause(each, now) for each in verdict.obstacles)
        if verdict.static:
            return f"Runs on node {verdict.node}: static pod, ends with the node and is not evicted"
        free = "it can be evicted now" + ", and would not be recreated: it has no owner" * verdict.unowned
        return f"Runs on node {verdict.node}: {blocks or free}"
    failure = verdict.refusal.scheduling if verdict.refusal is not None else None
    if failure is None:
        return f"{'Pending' if verdict.outcome in _PENDING else 'Not pending'}: {pod_waits(verdict)}"
    nodes = f"{nodes_words(failure)}; " if failure.nodes else ""
    reasons = {each.reason for each in failure.nodepools}
    volumes = [each.expression for each in verdict.labels if each.of_volume]
    nodes = f"{nodes}its volume requires {', '.join(volumes)}; " if volumes else nodes
    why = f": {next(iter(reasons))}" if len(reasons) == 1 else ""
    return f"Pending: {nodes}{f'no new node can take it{why}' if reasons else 'no NodePool can launch nodes now'}"


_PENDING = frozenset(PodOutcome) - {PodOutcome.RUNS, PodOutcome.ENDED, PodOutcome.DELETING, PodOutcome.NODE_MISSING}
_POD_WAITS = {
    PodOutcome.RUNS: "",
    PodOutcome.ENDED: "it has ended ({v.phase})",
    PodOutcome.DELETING: "it is being deleted",
    PodOutcome.NODE_MISSING: "bound to node {v.node}, which is not in the snapshot",
    PodOutcome.PREEMPTS: "kube-scheduler tries node {v.node} first, to which it is nominated",
    PodOutcome.NOT_MARKED: "kube-scheduler has not marked it unschedulable",
    PodOutcome.FITS: "fits node {v.node}",
    PodOutcome.LAUNCHES: "a node of NodePool {v.nodepool} would be launched for it",
    PodOutcome.NOT_CONSIDERED: "provisioning has not considered it",
}


def pod_waits(verdict: PodVerdict) -> str:
    """Why a pod has no node, or which one it will get; empty if it has one."""
    return message(verdict.refusal) if verdict.refusal is not None else _POD_WAITS[verdict.outcome].format(v=verdict)


def mismatch_words(mismatch: LabelMismatch) -> str:
    """An expression that nodes do not match, with the values that they have."""
    number = f"{mismatch.nodes} node{'s' * (mismatch.nodes != 1)}"
    have = "has" if mismatch.nodes == 1 else "have"
    required = f"{mismatch.expression}{' of its volume' * mismatch.of_volume}"
    return f"{required}: {number} {have} {', '.join(mismatch.found) or 'no such label'}"


_OUTCOMES = {
    Outcome.LEAVING: ("is leaving", "are leaving"),
    Outcome.LEAVES: ("leaves now", "leave now"),
    Outcome.CAN_LEAVE: ("can leave", "can leave"),
    Outcome.STAYS: ("stays", "stay"),
}


def pool_lines(verdict: PoolVerdict, now: datetime) -> list[str]:
    """The verdict on a NodePool: what its nodes do, whether a budget holds them back, what drifted, and which pods."""
    total = sum(number for _, number in verdict.outcomes)
    when = f" from {moment(verdict.next_at, now)}" if verdict.next_at is not None else ""
    parts = [
        f"{number} {_OUTCOMES[outcome][number != 1]}{when if outcome is Outcome.CAN_LEAVE else ''}"
        for outcome, number in verdict.outcomes
    ]
    paused = "".join(f"; {clause(each.obstacle, now)}" for each in verdict.paused)
    budgets = "; ".join(f"{clause(each.obstacle, now)} ({held_by(each)})" for each in verdict.budgets)
    drifted = "; ".join(drifted_words(each) for each in verdict.drifted)
    pods = "; ".join(f"{clause(each.obstacle, now)} ({held_by(each)})" for each in verdict.pods[:MOST_CLAUSES])
    more = f"; {len(verdict.pods) - MOST_CLAUSES} more" if len(verdict.pods) > MOST_CLAUSES else ""
    return [
        f"{_nodes(total)}: {', '.join(parts)}{paused}" if total else "No nodes",
        f"Held back by a budget: {budgets or 'none'}",
        f"Drifted: {drifted or 'none'}",
        f"Blocked by pods: {pods or 'none'}{more}",
    ]


def held_by(held: HeldNodes) -> str:
    """The nodes of a group: their number, or the name of the only one."""
    return f"on node {held.nodes[0]}" if len(held.nodes) == 1 else f"on {_nodes(len(held.nodes))}"


def drifted_words(drifted: DriftedNodes) -> str:
    """The nodes that drifted for one cause, and what changed."""
    named = f"node {drifted.nodes[0]}" if len(drifted.nodes) == 1 else _nodes(len(drifted.nodes))
    return f"{named} ({drift_words(drifted.cause)})"


def _nodes(number: int) -> str:
    return f"{number:,} node{'s' * (number != 1)}"
