"""Tells on Nodes, NodeClaims and NodePools what a pass of disruption found, as events.

What still holds is told again after a while, because the API server forgets events; in between it is not repeated, so
that a large cluster that is at rest is quiet. Decides nothing.
"""

import logging
from collections.abc import Hashable, Iterable
from datetime import datetime, timedelta

from dovetail.controllers.context import ControllerContext
from dovetail.core.disruption.balanced_policy import BALANCED, weigh
from dovetail.core.disruption.command import Command
from dovetail.core.disruption.delays import budgets_apply
from dovetail.core.disruption.drift import loop_refusal
from dovetail.core.disruption.events import (
    APPROVED,
    BLOCKED,
    CANDIDATE,
    PAUSED,
    PREFERENCE,
    REJECTED,
    TOLD,
    approved,
    blocking_budget,
    considered,
    refused,
    rejected,
    stale_caches,
    unreadable_budget,
)
from dovetail.core.disruption.pass_context import PassContext as Pass
from dovetail.core.disruption.preferred_nodes import PREVENTED, find_preferring
from dovetail.core.wording import message, sentence
from dovetail.model.kinds import NODE, NODE_CLAIM, NODE_POOL, POD
from dovetail.model.pause import UNREAD
from dovetail.model.reason import Reason
from dovetail.model.refusal import Refusal, RefusalCode, nodepool_ref
from dovetail.model.snapshot import ClusterNode
from dovetail.ports.cluster import Notice

REMIND = timedelta(minutes=30)
"""The API server forgets an event after an hour; what still holds is told again before."""
RENAME = timedelta(minutes=15)
"""Which pod has no other place changes all the time; within this one of them is enough."""
_NAMING = frozenset({RefusalCode.UNSCHEDULABLE, RefusalCode.CANT_REPLACE, RefusalCode.DRAIN_WOULD_STALL})
REMEMBERED = 200_000
PREFERENCES = timedelta(minutes=10)
"""How often it is looked for pods whose preferences keep nodes: that takes a simulation of all nodes."""
log = logging.getLogger(__name__)


class DisruptionEvents:
    """What was told, and when."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._told_at: dict[Hashable, datetime] = {}
        self._preferences_at: datetime | None = None

    def refused(self, method: str, refusals: Iterable[Refusal], look: Pass) -> None:
        """What stands in the way of a method, on each node."""
        now = self._context.clock.now()
        fresh = [
            each
            for each in refusals
            if each.code in TOLD
            and not (each.code in _NAMING and self._is_told((method, each.object, each.code), now, RENAME))
            and self._is_news(each, now)
        ]
        self._told_at.update({(method, each.object, each.code): now for each in fresh if each.code in _NAMING})
        nodes = {node.name: node for node in look.snapshot.nodes} if fresh else {}
        for refusal in fresh:
            node = nodes.get(refusal.object.name)
            if node is not None:
                self._on_node(node, *refused(method, refusal))

    def blind(self, look: Pass) -> bool:
        """Whether caches are stale: a node may be neither as empty nor as free as it looks."""
        stale = [informer.kind.plural for informer in self._context.state.stale()]
        for pool in look.snapshot.nodepools.values() if stale else ():
            self._publish(Notice(NODE_POOL, pool, BLOCKED, stale_caches(stale), warning=True))
        return bool(stale)

    def preferring(self, refusals: Iterable[Refusal], look: Pass) -> None:
        """Pods whose preferences keep nodes from being consolidated, looked for every ten minutes at most."""
        now = self._context.clock.now()
        if self._preferences_at is not None and now - self._preferences_at < PREFERENCES:
            return
        held = [each for each in refusals if each.code in PREVENTED]
        self._preferences_at = now if held else None
        for each in find_preferring(held, look):
            if self._is_news((PREFERENCE, each.pod.metadata.uid, each.node), now):
                facts = {"pod": str(each.pod.key), "prefers": " and ".join(each.kinds), "node": each.node}
                log.info("pod has a preference which prevents consolidation", extra=facts)
                self._context.recorder.publish(Notice(POD, each.pod, PREFERENCE, sentence(message(each.refusal))))

    def paused(self, look: Pass) -> None:
        """Pools whose nodes are left alone because people said so."""
        for name, pool in look.snapshot.nodepools.items():
            pause = look.snapshot.pause_of(name)
            if pause is not None and look.snapshot.pause != UNREAD:
                self._publish(Notice(NODE_POOL, pool, PAUSED, sentence(str(pause)), warning=bool(pause.fault)))

    def drift_loops(self, look: Pass) -> None:
        """Pools whose nodes are not replaced for a drift, because their replacements are drifted as well."""
        loops = look.drift_loops
        for name, reason in loops:
            refusal = loop_refusal(nodepool_ref(name), name, reason, loops)
            said = sentence(message(refusal)) if refusal is not None else ""
            self._publish(Notice(NODE_POOL, look.snapshot.nodepools[name], BLOCKED, said, warning=True))
        self._context.metrics.show("dovetail_nodepools_drift_stopped", dict.fromkeys(loops, 1.0))

    def budgets(self, reason: Reason, look: Pass) -> None:
        """Pools whose budgets allow nothing for a reason, or cannot be understood."""
        for name, pool in look.snapshot.nodepools.items():
            if not budgets_apply(pool, reason):
                continue
            allowed = look.allowance(name, reason)
            if allowed.fault:
                self._publish(Notice(NODE_POOL, pool, BLOCKED, unreadable_budget(allowed.fault), warning=True))
            elif allowed.limit == 0 and look.counts(name).total:
                self._publish(Notice(NODE_POOL, pool, BLOCKED, blocking_budget(reason)))

    def considered(self, command: Command, look: Pass) -> None:
        """A consolidation that would replace something, before it is looked at again; and that it is worth it."""
        if command.reason != Reason.UNDERUTILIZED:
            return
        for candidate in command.candidates if command.replacements else ():
            self._on_node(candidate.node, CANDIDATE, considered(command, candidate.name))
        for pool in {each.pool.name: each.pool for each in command.candidates}.values():
            if pool.consolidation_policy != BALANCED:
                continue
            said = approved(weigh(command, pool, look))
            if len(command.candidates) > 1:
                self._publish(Notice(NODE_POOL, pool, APPROVED, said))
            else:
                self._on_node(command.candidates[0].node, APPROVED, said)

    def rejected(self, command: Command, refusal: Refusal) -> None:
        """A consolidation that no longer held when it was looked at again."""
        for candidate in command.candidates:
            self._on_node(candidate.node, REJECTED, rejected(command, candidate.name, message(refusal)))

    def _on_node(self, node: ClusterNode, reason: str, said: str) -> None:
        if node.node is not None:
            self._publish(Notice(NODE, node.node, reason, said))
        if node.claim is not None:
            self._publish(Notice(NODE_CLAIM, node.claim, reason, said))

    def _publish(self, notice: Notice) -> None:
        same = (notice.kind.name, notice.about.metadata.uid, notice.reason, notice.message)
        if self._is_news(same, self._context.clock.now()):
            self._context.recorder.publish(notice)

    def _is_news(self, same: Hashable, now: datetime) -> bool:
        """Whether this was not said a while ago; from now on it was."""
        if self._is_told(same, now, REMIND):
            return False
        if len(self._told_at) >= REMEMBERED:
            self._told_at.clear()  # the recorder still does not repeat what was said a moment ago
        self._told_at[same] = now
        return True

    def _is_told(self, same: Hashable, now: datetime, within: timedelta) -> bool:
        last_at = self._told_at.get(same)
        return last_at is not None and now - last_at < within
