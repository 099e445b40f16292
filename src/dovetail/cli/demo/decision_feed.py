"""The decision feed: what the player does, what the controllers log, and what they warn of in events, in a line each.

Hears; never acts. Evictions are gathered into one line a node, and a warning about the same workload is not repeated
for a while. Times are virtual, so the same seed tells the same feed.
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

_KEPT = 200  # entries; what the tallest terminal can show
_SILENCE = 600.0  # seconds before a warning about the same thing is told again
_DRAIN_PREFIX = "Failed to drain node, "
_TOLD_BY_THE_LOG = frozenset(
    {"SpotInterrupted", "TerminatingOnInterruption", "TerminationGracePeriodExpiring", "NodeRepair"}
)
_WORTH_TELLING = 10.0  # seconds: shorter waits happen on nodes that were there
_ACTIONS = {  # kind of the entry and its text, by the action of the player
    "none": ("user", "no node or object to act on"),
    "event": ("story", "{about}"),
    "interrupt": ("cloud", "{about}: reclaimed in 2m, {pods} on it"),
    "fail": ("lost", "{about}: instance failed with {pods}"),
    "vanish": ("lost", "{about}: instance vanished with {pods}"),
    "delete_nodes": ("user", "{about}: node deleted by hand, {pods} on it"),
    "set_condition": ("sick", "{about}: {details}"),
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
    """Translates log records and events. `show` gets each entry as it comes."""

    def __init__(self, world: World, time: Callable[[], float], show: Callable[[Entry], None]) -> None:
        super().__init__(logging.INFO)
        self.entries: deque[Entry] = deque(maxlen=_KEPT)
        self._world = world
        self._time = time
        self._show = show
        self._evicted: Counter[str] = Counter()
        self._forced: Counter[str] = Counter()
        self._asked_at: dict[str, float] = {}
        self._instances: set[str] = set()  # told of already: a launch that is repeated gives the same instance
        self._told_at: dict[tuple[str, str], float] = {}
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
        world.store.listen((resource_of(kinds.EVENT),), self._hear_event)

    def tell(self, kind: str, text: str) -> None:
        """Add an entry now."""
        entry = Entry(self._time(), kind, text)
        self.entries.append(entry)
        self._show(entry)

    def play(self, action: NodeAction) -> None:
        """The player did something."""
        kind, text = _ACTIONS[action.name]
        details = ", ".join(action.details)
        told = text.format(about=action.about, pods=counted(action.pods, "pod"), details=details)
        self.tell(kind, short_names(f"{told} ({details})" if details and action.name == "event" else told))

    def settled(self, number: int, slowest: float) -> None:
        """No pod waits any more."""
        if slowest >= _WORTH_TELLING:
            self.tell("settled", f"no pod waits: {counted(number, 'pod')} started, the slowest after {slowest:.0f} s")

    def emit(self, record: logging.LogRecord) -> None:
        """A controller logged something."""
        fields = {name: value for name, value in vars(record).items() if name not in _OWN_FIELDS}
        translate = self._by_message.get(record.getMessage())
        if translate is not None:
            translate(fields)
        elif record.levelno >= logging.WARNING:
            told = ", ".join(f"{name}={value}" for name, value in sorted(fields.items()))
            self.tell("warning", f"{record.getMessage()}: {told}" if told else record.getMessage())

    def _disrupting(self, fields: dict[str, Any]) -> None:
        what = short_names(str(fields["what"]))
        self.tell("disrupt", f"{fields['reason']}: {what}")

    def _interrupted(self, fields: dict[str, Any]) -> None:
        why = str(fields["kind"]).replace("_", " ")
        self.tell("notice", f"{fields['nodeclaim']}: {why}; drained ahead of it, replaced at once")

    def _repairing(self, fields: dict[str, Any]) -> None:
        self.tell("repair", f"{short_name(fields['node'])}: {fields['why']}; replaced by force")

    def _created(self, fields: dict[str, Any]) -> None:
        name, requests = fields["nodeclaim"], fields.get("requests")
        self._asked_at[name] = self._time()
        if requests is None:
            self.tell("claim", f"{name}: ahead of a node that is going")
            return
        wanted = f"cpu {requests.get('cpu', '0')}, memory {requests.get('memory', '0')}"
        self.tell("claim", f"{name}: for {counted(fields['pods'], 'pod')} ({wanted}); {fields['instance_types']}")

    def _launched(self, fields: dict[str, Any]) -> None:
        if fields["provider_id"] in self._instances:
            return
        self._instances.add(fields["provider_id"])
        claim = self._world.store.find(NODE_CLAIM, Key("", fields["nodeclaim"]))
        labels = (claim.meta.get("labels") or {}) if claim is not None else {}
        where = f"{labels.get(CAPACITY_TYPE, '?')} in {labels.get(ZONE, '?')}"
        price = f"${float(labels.get(PRICE, 0)):.4f}/h"
        self.tell("launch", f"{fields['nodeclaim']}: {labels.get(INSTANCE_TYPE, '?')}, {where}, {price}")

    def _registered(self, fields: dict[str, Any]) -> None:
        self.tell("join", f"{fields['nodeclaim']}: node registered")

    def _initialized(self, fields: dict[str, Any]) -> None:
        name = fields["nodeclaim"]
        seconds = self._time() - self._asked_at.pop(name, self._time())
        self.tell("ready", f"{name}: initialized, {seconds:.0f} s after it was asked for")

    def _deleting(self, fields: dict[str, Any]) -> None:
        self.tell("warning", f"{fields['nodeclaim']}: deleting nodeclaim, {str(fields['reason']).replace('_', ' ')}")

    def _pod_evicted(self, fields: dict[str, Any]) -> None:
        self._evicted[fields["node"]] += 1

    def _pod_forced(self, fields: dict[str, Any]) -> None:
        self._forced[fields["node"]] += 1

    def _node_deleted(self, fields: dict[str, Any]) -> None:
        evicted, forced = self._evicted.pop(fields["node"], 0), self._forced.pop(fields["node"], 0)
        moved = f"{counted(evicted, 'pod')} evicted" if evicted or not forced else ""
        parts = [moved, f"{counted(forced, 'pod')} deleted by force" if forced else "", "node deleted"]
        self.tell("drained", f"{short_name(fields['node'])}: {', '.join(filter(None, parts))}")

    def _claim_deleted(self, fields: dict[str, Any]) -> None:
        self._asked_at.pop(fields["nodeclaim"], None)
        self.tell("gone", f"{fields['nodeclaim']}: instance and nodeclaim are gone")

    def _hear_event(self, step: StoreChange) -> None:
        event = step.after.plain
        if step.type == "DELETED" or event["reason"] in _TOLD_BY_THE_LOG:
            return
        about, message = event["involvedObject"], event["message"]
        if event.get("type") != "Warning":
            self._spared(about, event["reason"], message)
            return
        if event["reason"] == "FailedDraining":
            self.tell("drain", f"{short_name(about['name'])}: {message.removeprefix(_DRAIN_PREFIX)}")
            return
        name = self._workload(about) if about["kind"] == "Pod" else f"{about['kind']} {about['name']}"
        told_at = self._told_at.get((name, event["reason"]))
        if told_at is None or self._time() - told_at >= _SILENCE:
            self._told_at[name, event["reason"]] = self._time()
            self.tell("warning", f"{name}: {event['reason']}: {message}")

    def _spared(self, about: dict[str, str], reason: str, message: str) -> None:
        """A node that a protected pod keeps, or a pool whose budget is used up: why less happens than could."""
        told = (about["kind"] == "Node" and DO_NOT_DISRUPT in message) or about["kind"] == "NodePool"
        if reason == BLOCKED and told and (about["name"], message) not in self._told_at:
            self._told_at[about["name"], message] = self._time()
            self.tell("spared", f"{short_name(about['name'])}: {message[:1].lower()}{message[1:]}")

    def _workload(self, about: dict[str, str]) -> str:
        pod = self._world.store.find(POD, Key(about.get("namespace", ""), about["name"]))
        labels = (pod.meta.get("labels") or {}) if pod is not None else {}
        return f"pods of {labels['app']}" if "app" in labels else f"pod {about['name']}"
