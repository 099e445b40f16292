"""The decision feed of the demo: one line for each scenario event, decision and warning of the controllers.

`Feed` is a log handler that translates log records by their message, and listens for Events in the store of the world.
Evictions are counted and reported once per node; a warning about the same workload is repeated only after ten minutes.
All times are virtual, so the same seed gives the same feed.
"""

import logging
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dovetail.cli.view.printing import counted, short_name, short_names
from dovetail.cloud.kwok.node import PRICE
from dovetail.core.disruption.events import BLOCKED
from dovetail.model import kinds
from dovetail.model.kube_object import Key
from dovetail.model.labels import CAPACITY_TYPE, DO_NOT_DISRUPT, INSTANCE_TYPE, ZONE
from dovetail.sim.kubernetes.kinds import NODE_CLAIM, POD, resource_of
from dovetail.sim.kubernetes.store import StoreChange
from dovetail.sim.scenario.player import NodeAction
from dovetail.sim.world import World

_KEPT = 200  # entries, more than any terminal shows
_REPEAT_SECONDS = 600.0  # before a warning about the same object is repeated
_DRAIN_PREFIX = "Failed to drain node, "
_LOGGED_EVENTS = frozenset(  # event reasons that the log reports too
    {"SpotInterrupted", "TerminatingOnInterruption", "TerminationGracePeriodExpiring", "NodeRepair"}
)
_LONG_PENDING = 10.0  # seconds; shorter waits needed no new node
_ACTIONS = {  # kind of the entry and its text, by the action of the player
    "none": ("user", "no node or object to act on"),
    "event": ("event", "{about}"),
    "interrupt": ("cloud", "{about}: reclaimed in 2m, {pods} on it"),
    "fail": ("lost", "{about}: instance failed with {pods}"),
    "vanish": ("lost", "{about}: instance disappeared with {pods}"),
    "delete_nodes": ("user", "{about}: node deleted by hand, {pods} on it"),
    "set_condition": ("fault", "{about}: {details}"),
    "patch": ("change", "{about}: {details}"),
}
_OWN_FIELDS = frozenset(vars(logging.makeLogRecord({})))


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the feed."""

    at: float  # seconds of virtual time
    kind: str
    text: str


class Feed(logging.Handler):
    """Translates log records and Events into entries; calls `show` with each."""

    def __init__(self, world: World, time: Callable[[], float], show: Callable[[Entry], None]) -> None:
        super().__init__(logging.INFO)
        self.entries: deque[Entry] = deque(maxlen=_KEPT)
        self._world = world
        self._time = time
        self._show = show
        self._evicted: Counter[str] = Counter()
        self._forced: Counter[str] = Counter()
        self._created_at: dict[str, float] = {}  # by NodeClaim
        self._instances: set[str] = set()  # already reported; a repeated launch returns the same instance
        self._reported_at: dict[tuple[str, str], float] = {}
        self._by_message: Mapping[str, Callable[[dict[str, Any]], None]] = {
            "disrupting nodes": self._disrupting,
            "interrupted": self._interrupted,
            "repairing node": self._repairing,
            "created nodeclaim": self._created,
            "launched nodeclaim": self._launched,
            "registered nodeclaim": self._registered,
            "initialized nodeclaim": self._initialized,
            "deleting nodeclaim": self._deleting,
            "evicted pod": self._pod_evicted,
            "deleted pod": self._pod_forced,
            "deleted node": self._node_deleted,
            "deleted nodeclaim": self._claim_deleted,
        }
        world.store.listen((resource_of(kinds.EVENT),), self._on_event)

    def add(self, kind: str, text: str) -> None:
        """Add an entry at the current time."""
        entry = Entry(self._time(), kind, text)
        self.entries.append(entry)
        self._show(entry)

    def play(self, action: NodeAction) -> None:
        """Report an action of the scenario player."""
        kind, text = _ACTIONS[action.name]
        details = ", ".join(action.details)
        line = text.format(about=action.about, pods=counted(action.pods, "pod"), details=details)
        self.add(kind, short_names(f"{line} ({details})" if details and action.name == "event" else line))

    def settled(self, number: int, slowest: float) -> None:
        """Report that no pod is pending any more."""
        if slowest >= _LONG_PENDING:
            self.add("settled", f"no pending pods: {counted(number, 'pod')} started, the slowest after {slowest:.0f} s")

    def emit(self, record: logging.LogRecord) -> None:
        """Translate a log record of the controllers."""
        fields = {name: value for name, value in vars(record).items() if name not in _OWN_FIELDS}
        translate = self._by_message.get(record.getMessage())
        if translate is not None:
            translate(fields)
        elif record.levelno >= logging.WARNING:
            details = ", ".join(f"{name}={value}" for name, value in sorted(fields.items()))
            self.add("warning", f"{record.getMessage()}: {details}" if details else record.getMessage())

    def _disrupting(self, fields: dict[str, Any]) -> None:
        what = short_names(str(fields["what"]))
        self.add("disrupt", f"{fields['reason']}: {what}")

    def _interrupted(self, fields: dict[str, Any]) -> None:
        why = str(fields["kind"]).replace("_", " ")
        self.add("notice", f"{fields['nodeclaim']}: {why}; draining and replacing the node")

    def _repairing(self, fields: dict[str, Any]) -> None:
        self.add("repair", f"{short_name(fields['node'])}: {fields['why']}; replacing the node by force")

    def _created(self, fields: dict[str, Any]) -> None:
        name, requests = fields["nodeclaim"], fields.get("requests")
        self._created_at[name] = self._time()
        if requests is None:
            self.add("claim", f"{name}: replacement for a node to be removed")
            return
        resources = f"cpu {requests.get('cpu', '0')}, memory {requests.get('memory', '0')}"
        self.add("claim", f"{name}: for {counted(fields['pods'], 'pod')} ({resources}); {fields['instance_types']}")

    def _launched(self, fields: dict[str, Any]) -> None:
        if fields["provider_id"] in self._instances:
            return
        self._instances.add(fields["provider_id"])
        claim = self._world.store.find(NODE_CLAIM, Key("", fields["nodeclaim"]))
        labels = (claim.meta.get("labels") or {}) if claim is not None else {}
        where = f"{labels.get(CAPACITY_TYPE, '?')} in {labels.get(ZONE, '?')}"
        price = f"${float(labels.get(PRICE, 0)):.4f}/h"
        self.add("launch", f"{fields['nodeclaim']}: {labels.get(INSTANCE_TYPE, '?')}, {where}, {price}")

    def _registered(self, fields: dict[str, Any]) -> None:
        self.add("join", f"{fields['nodeclaim']}: node registered")

    def _initialized(self, fields: dict[str, Any]) -> None:
        name = fields["nodeclaim"]
        seconds = self._time() - self._created_at.pop(name, self._time())
        self.add("ready", f"{name}: initialized after {seconds:.0f} s")

    def _deleting(self, fields: dict[str, Any]) -> None:
        self.add("warning", f"{fields['nodeclaim']}: deleting nodeclaim, {str(fields['reason']).replace('_', ' ')}")

    def _pod_evicted(self, fields: dict[str, Any]) -> None:
        self._evicted[fields["node"]] += 1

    def _pod_forced(self, fields: dict[str, Any]) -> None:
        self._forced[fields["node"]] += 1

    def _node_deleted(self, fields: dict[str, Any]) -> None:
        evicted, forced = self._evicted.pop(fields["node"], 0), self._forced.pop(fields["node"], 0)
        moved = f"{counted(evicted, 'pod')} evicted" if evicted or not forced else ""
        parts = [moved, f"{counted(forced, 'pod')} deleted by force" if forced else "", "node deleted"]
        self.add("drained", f"{short_name(fields['node'])}: {', '.join(filter(None, parts))}")

    def _claim_deleted(self, fields: dict[str, Any]) -> None:
        self._created_at.pop(fields["nodeclaim"], None)
        self.add("deleted", f"{fields['nodeclaim']}: instance and nodeclaim deleted")

    def _on_event(self, step: StoreChange) -> None:
        event = step.after.plain
        if step.type == "DELETED" or event["reason"] in _LOGGED_EVENTS:
            return
        about, message = event["involvedObject"], event["message"]
        if event.get("type") != "Warning":
            self._blocked(about, event["reason"], message)
            return
        if event["reason"] == "FailedDraining":
            self.add("drain", f"{short_name(about['name'])}: {message.removeprefix(_DRAIN_PREFIX)}")
            return
        name = self._workload(about) if about["kind"] == "Pod" else f"{about['kind']} {about['name']}"
        reported_at = self._reported_at.get((name, event["reason"]))
        if reported_at is None or self._time() - reported_at >= _REPEAT_SECONDS:
            self._reported_at[name, event["reason"]] = self._time()
            self.add("warning", f"{name}: {event['reason']}: {message}")

    def _blocked(self, about: dict[str, str], reason: str, message: str) -> None:
        """Report once why a node or NodePool is not disrupted: a protected pod, or an exhausted budget."""
        relevant = (about["kind"] == "Node" and DO_NOT_DISRUPT in message) or about["kind"] == "NodePool"
        if reason == BLOCKED and relevant and (about["name"], message) not in self._reported_at:
            self._reported_at[about["name"], message] = self._time()
            self.add("blocked", f"{short_name(about['name'])}: {message[:1].lower()}{message[1:]}")

    def _workload(self, about: dict[str, str]) -> str:
        pod = self._world.store.find(POD, Key(about.get("namespace", ""), about["name"]))
        labels = (pod.meta.get("labels") or {}) if pod is not None else {}
        return f"pods of {labels['app']}" if "app" in labels else f"pod {about['name']}"
