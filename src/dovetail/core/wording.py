"""Texts of refusals: the only module that turns a `Refusal` into words. Verdicts are in `verdict_wording`.

`message` is a complete text for events, logs, `plan`, the dashboard and the ledger. `obstacle` is the text in
`explain`, which prints the instant at which the obstacle ends beside it. `_WORDS` maps every `RefusalCode` to a format
string, or to a function of the evidence that the refusal carries. Texts that Karpenter documents are Karpenter's.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from dovetail.model.instants import stamp
from dovetail.model.labels import DO_NOT_DISRUPT, NODEPOOL
from dovetail.model.pause import Pause
from dovetail.model.reason import Reason
from dovetail.model.refusal import (
    GRACE_PERIOD,
    RESOURCE_CLAIMS,
    SPOT_TO_SPOT,
    FailedConstraint,
    ObjectRef,
    Refusal,
    RefusalCode,
    SchedulingFailure,
)

Words = str | Callable[[Refusal], str]
"""A format string with the refusal as `r`, or a function where the words depend on the evidence."""
CANT_REPLACE: Final = "Can't replace with a cheaper node"


def message(refusal: Refusal) -> str:
    """The refusal as text, with the instant at which it ends for the codes in `_BEFORE_INSTANT`."""
    text = _text(_WORDS[refusal.code], refusal)
    lead = _BEFORE_INSTANT.get(refusal.code)
    return f"{text}{lead}{stamp(refusal.until)}" if lead is not None and refusal.until is not None else text


def obstacle(refusal: Refusal) -> str:
    """The refusal as text, without the instant at which it ends."""
    return _text(_IN_EXPLANATIONS.get(refusal.code, _WORDS[refusal.code]), refusal)


def sentence(text: str) -> str:
    """The text with a capital first letter, for events."""
    return text[:1].upper() + text[1:]


def _text(words: Words, refusal: Refusal) -> str:
    return words.format(r=refusal) if isinstance(words, str) else words(refusal)


def _unreadable(r: Refusal) -> str:
    return f"{r.detail}: correct it" if r.nodepool else f"{r.detail}: correct or delete it"


def _node_missing(r: Refusal) -> str:
    if r.object.kind == "nodeclaim":
        return "its node was not found: it was deleted, or another NodeClaim has the same provider ID"
    return "nodeclaim does not have an associated node"


def _protecting_pod(r: Refusal) -> str:
    fault = f", whose annotation cannot be understood: {r.detail}" if r.detail else ""
    return f"protected by pod {r.pod}{fault}"


def _pdb(r: Refusal) -> str:
    names, suffix = " ".join(map(str, r.pdbs)), f" for pod {r.pod}" if r.object.kind == "node" else ""
    if r.detail:
        unread = "pdb cannot be read, so it is taken to allow nothing"
        return f"{unread} (PodDisruptionBudget=[{names}]: {r.detail}){suffix}"
    if len(r.pdbs) > 1:
        return f"eviction does not support multiple PDBs (PodDisruptionBudget(s)=[{names}]){suffix}"
    return f"pdb prevents pod evictions (PodDisruptionBudget=[{names}]){suffix}"


_CLOCKS = {
    Reason.EXPIRED: "not expired: its lifetime runs",
    Reason.DRIFTED: "drifted, and left alone",
    Reason.EMPTY: "empty, and left alone",
    Reason.UNDERUTILIZED: "inside its consolidateAfter window",
}


def _clock(r: Refusal) -> str:
    return f"inside its {GRACE_PERIOD}" if r.setting == GRACE_PERIOD else _CLOCKS[r.reason or Reason.UNDERUTILIZED]


def _waiting(r: Refusal) -> str:
    return _clock(r) if r.until is not None else f"{_clock(r)}, and its clock has not started"


def _never(r: Refusal) -> str:
    if r.until is not None:
        return f"not expired: expires after {r.setting}, regardless of budgets"
    if r.nodepool:
        says = f"{r.setting} for" if r.setting else "no"
        return f"never expires: NodePool {r.nodepool} sets {says} expireAfter under disruption"
    return f"{_clock(r)}, which never ends"


def _not_empty(r: Refusal) -> str:
    run = "1 pod runs" if r.count == 1 else f"{r.count} pods run"
    return f"not empty: {run} on it"


def _budget(r: Refusal) -> str:
    assert r.budget is not None, "a budget that is spent is named"
    spent = r.budget
    if spent.number:
        name = f"budget {spent.number} of {spent.of} ({spent.nodes!r})"
        if spent.later:
            return f"{name} will be in force by then and allows {spent.limit} of {spent.total} nodes"
        use = f", {spent.disrupting} in use" if spent.disrupting else ""
        return f"{name} in force allows {spent.limit} of {spent.total} nodes{use}"
    allows = f"budget {spent.nodes!r} of NodePool {r.nodepool} allows {spent.limit} for {r.reason}"
    if r.command:
        return f"{allows} by now, {spent.disrupting} in use"
    return f"{allows}: {spent.disrupting} in use" + (f", {spent.ahead} ahead of it" if spent.ahead else "")


def constraint_words(constraints: Iterable[FailedConstraint]) -> str:
    """Constraints with the numbers of nodes, in the format and order of kube-scheduler's message."""
    return ", ".join(sorted(f"{each.nodes} {each.reason}" for each in constraints))


def nodes_words(failure: SchedulingFailure) -> str:
    """Why no existing node accepts a pod, as kube-scheduler says it."""
    return f"0/{failure.nodes} nodes are available: {constraint_words(failure.constraints)}"


def _scheduling_words(failure: SchedulingFailure) -> str:
    nodes = f"{nodes_words(failure)}. " if failure.nodes else ""
    pools = "; ".join(f"NodePool {each.nodepool}: {each.reason}" for each in failure.nodepools)
    return f"{nodes}No new node can take it: {pools or 'no NodePool can launch nodes now'}"


def _unschedulable(r: Refusal) -> str:
    if r.scheduling is not None:
        return _scheduling_words(r.scheduling)
    if r.detail:
        return r.detail
    lead = f"{CANT_REPLACE}:" if r.reason is Reason.UNDERUTILIZED else "not all pods would schedule,"
    limits = f" because limits block a new node ({r.limits})" if r.limits else ""
    return f"{lead} {r.pod} fits on no other node{limits}"


def _cant_replace(r: Refusal) -> str:
    if r.setting != SPOT_TO_SPOT:
        return CANT_REPLACE
    if not r.count:
        return f"{SPOT_TO_SPOT} is disabled, can't replace a spot node with a spot node"
    why = f"requires {r.detail} cheaper instance type options than the current candidate to consolidate"
    return f"{SPOT_TO_SPOT} {why}, got {r.count}"


def _small_saving(r: Refusal) -> str:
    assert r.small_saving is not None, "a saving that is too small is given"
    small = r.small_saving
    together = f" together with {r.count - 1} more" if r.count > 1 else ""
    evictions = f"{small.evictions} eviction{'s' * (small.evictions != 1)}"
    setting = f"minSavings {small.min_savings} of nodepool {r.nodepool}, turnover {small.turnover:.0%}"
    threshold = f"the threshold of ${small.required:.3f}/h ({setting})"
    return f"saves ${small.saving:.3f}/h{together} for {evictions}: below {threshold}"


def _launch_backoff(r: Refusal) -> str:
    until = stamp(r.until) if r.until is not None else "later"
    times = f"{r.count} launch{'es' * (r.count > 1)} did not help"
    return f"NodePool {r.nodepool} launches no node for it before {until}, {times}: {r.detail}"


def _named(other: ObjectRef | None) -> str:
    return f"{other.kind} {other.name}" if other is not None else "a node"


def _awaited(r: Refusal) -> str:
    return f" ({r.detail})" if r.detail else ""


def _changed(topic: str) -> Callable[[Refusal], str]:
    dropped = "not eligible any more when its command was validated"
    return lambda r: f"{topic}: {message(r.cause) if r.cause is not None else r.detail or dropped}"


def _next_pass(r: Refusal) -> str:
    if r.count:
        return f"multi-node consolidation considers {r.count} nodes a pass, and others come first"
    return "another nodepool goes first" if r.nodepool else "waits for the replacements that this pass launches"


def _disrupting(r: Refusal) -> str:
    number = f"{r.count} replacement{'s' * (r.count != 1)}"
    waits = f"waits for {number} to be ready" if r.count else "is about to be terminated"
    return f"{r.reason}: {waits} (command {r.command})"


def _draining(r: Refusal) -> str:
    if r.pod is not None and r.cause is not None:
        return f"{'drain is stuck' if r.permanent else 'drain waits'}: {r.pod} {r.setting}: {drain_words(r.cause)}"
    left = f"{r.count} pod{'s' * (r.count != 1)} to go" if r.count else r.detail or "every pod is gone"
    return f"draining: {left}"


def drain_words(refusal: Refusal) -> str:
    """Why the drain of a node cannot evict a pod."""
    if refusal.code is not RefusalCode.DO_NOT_DISRUPT_POD:
        return message(refusal)
    fault = f", which cannot be understood: {refusal.detail}" if refusal.detail else ""
    return f"protected by {DO_NOT_DISRUPT}{fault}"


def _unhealthy(r: Refusal) -> str:
    if r.permanent:
        return f"{r.setting}, not repaired: {r.detail}"
    if r.until is None:
        return f"{r.setting}, repair waits: too many nodes of its pool are unhealthy"
    return f"{r.setting}: repaired unless it recovers"


def _invalid_pod(r: Refusal) -> str:
    if r.setting == RESOURCE_CLAIMS:
        return "it requests devices by resourceClaims (Dynamic Resource Allocation), which Dovetail cannot simulate"
    return r.detail


_C = RefusalCode
_WORDS: Final[Mapping[RefusalCode, Words]] = {
    _C.UNREADABLE: _unreadable,
    _C.INTERNAL_ERROR: "left unchanged because of an internal error: {r.detail}",
    _C.UNMANAGED: "not managed by Dovetail: no NodeClaim belongs to it",
    _C.ALREADY_DISRUPTING: "candidate is already being disrupted (Command={r.command})",
    _C.REPLACEMENT: "it is a replacement of a command that still runs (Command={r.command})",
    _C.NODE_MISSING: _node_missing,
    _C.NOT_INITIALIZED: "node isn't initialized",
    _C.DELETING: "node is deleting or marked for deletion",
    _C.NOMINATED: "node is nominated for a pending pod",
    _C.DO_NOT_DISRUPT_NODE: f'disruption is blocked through the "{DO_NOT_DISRUPT}" annotation',
    _C.NO_NODE_POOL: f"node doesn't have required label (label={NODEPOOL})",
    _C.NODE_POOL_MISSING: "NodePool not found (NodePool={r.nodepool})",
    _C.NO_PROVIDER: "no provider manages the nodes of NodePool {r.nodepool} (nodeClassRef={r.detail})",
    _C.NO_CATALOG: "the instance types of NodePool {r.nodepool} are not known: {r.detail}",
    _C.PAUSED: lambda r: str(Pause(r.setting, fault=r.detail)),
    _C.DO_NOT_DISRUPT_POD: f'pod has "{DO_NOT_DISRUPT}" annotation (Pod={{r.pod}})',
    _C.UNKNOWN_DEVICES: "pod requests devices by resourceClaims, which Dovetail cannot simulate (Pod={r.pod})",
    _C.POD_DISRUPTION_BUDGET: _pdb,
    _C.UNPLANNED_POD: "pod {r.pod} was bound to it after the command was planned",
    _C.EXPECTING: "pending pods, or pods of nodes that are removed first, will be scheduled to it",
    _C.WAITING: _waiting,
    _C.NEVER: _never,
    _C.STATIC: "NodePool {r.nodepool} keeps a fixed number of nodes",
    _C.GATE_CLOSED: "the {r.setting} feature gate is off",
    _C.NOT_DRIFTED: "not drifted: it matches its NodePool",
    _C.DRIFT_NOT_FIXED: (
        "drift of NodePool {r.nodepool} for {r.detail} is stopped: node {r.other.name} was launched to replace a node "
        "drifted for {r.detail} and is drifted for the same reason. Change the NodePool or its node class"
    ),
    _C.EMPTY: lambda r: "it became empty: no replacement is needed" if r.command else "empty: emptiness handles it",
    _C.NOT_EMPTY: _not_empty,
    _C.CONSOLIDATION_DISABLED: 'NodePool "{r.nodepool}" has consolidation disabled',
    _C.POLICY_WHEN_EMPTY: 'NodePool "{r.nodepool}" has consolidation policy WhenEmpty, but node is not empty',
    _C.INSTANCE_TYPE_UNKNOWN: "its instance type is not in the catalog",
    _C.LABEL_MISSING: 'Node does not have label "{r.setting}"',
    _C.COOLING_DOWN: "a pod was bound to it a moment ago, and nodepool {r.nodepool} has minSavings",
    _C.BUDGET: _budget,
    _C.BUDGET_UNREADABLE: (
        "NodePool {r.nodepool} has a budget that cannot be understood, so nothing is disrupted: {r.detail}"
    ),
    _C.BACKING_OFF: "replacements for NodePool {r.nodepool} failed",
    _C.UNSCHEDULABLE: _unschedulable,
    _C.CANT_REPLACE: _cant_replace,
    _C.NOT_BALANCED: "saves too little for the disruption it causes",
    _C.SAVES_TOO_LITTLE: _small_saving,
    _C.PREFERENCE: "pod {r.pod} has a preferred {r.detail} which prevents consolidation of node {r.object.name}",
    _C.DRAIN_WOULD_STALL: lambda r: (
        f"the drain would not end: pod {r.pod}, once evicted, cannot be scheduled before a drained node is gone, and "
        f"until it runs its pdb prevents other evictions (PodDisruptionBudget=[{' '.join(map(str, r.pdbs))}])"
    ),
    _C.LAUNCH_BACKOFF: _launch_backoff,
    _C.REPLACEMENT_NOT_INITIALIZED: lambda r: (
        f"{_named(r.other)}, launched as a replacement before, is not initialized{_awaited(r)}: nothing more is "
        f"launched for NodePool {r.nodepool} until it initializes or is deleted"
    ),
    _C.DESTINATION_NOT_INITIALIZED: lambda r: (
        f"its pods would be scheduled to {_named(r.other)}, which is not initialized yet{_awaited(r)}"
    ),
    _C.ANOTHER_FIRST: "another command goes first",
    _C.NEXT_PASS: _next_pass,
    _C.NO_SET: "no set of nodes with it can be replaced by at most one cheaper node",
    _C.NOT_THE_BEST: "could be consolidated, but another node saves more",
    _C.CANDIDATES_CHANGED: _changed("churn"),
    _C.BUDGETS_CHANGED: _changed("budget"),
    _C.SIMULATION_CHANGED: _changed("scheduling"),
    _C.COMING: "waits for its {r.detail}",
    _C.DISRUPTING: _disrupting,
    _C.DRAINING: _draining,
    _C.UNHEALTHY: _unhealthy,
    _C.CONFIGURED_ELSEWHERE: "configured to not run on a node of a NodePool",
    _C.INVALID_POD: _invalid_pod,
    _C.NO_COMPATIBLE_INSTANCE_TYPES: "NodePool requirements filtered out all compatible available instance types",
}
_IN_EXPLANATIONS: Final[Mapping[RefusalCode, Words]] = {_C.DO_NOT_DISRUPT_POD: _protecting_pod}
_BEFORE_INSTANT: Final = {
    _C.WAITING: " until ",
    _C.COOLING_DOWN: ": left alone until ",
    _C.NEVER: ", at ",
    _C.PAUSED: " until ",
    _C.BACKING_OFF: "; tried again at ",
}
"""Codes whose message ends with the instant, and the words before it."""
