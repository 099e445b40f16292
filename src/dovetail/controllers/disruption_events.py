"""Publishes the findings of a disruption pass as events on Nodes, NodeClaims, NodePools and pods.

The texts come from `core.disruption.events`; this module only decides when an event is published. The same event on the
same object is published again after 30 minutes, because the API server drops events after an hour, and not in between,
so that a large idle cluster writes few events. Refusals that name a pod are also limited to one per node, method and
code in 15 minutes, because the first pod that does not fit changes from pass to pass.
"""

import logging
from collections.abc import Hashable, Iterable
from datetime import datetime, timedelta
from functools import partial

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
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.preferred_nodes import PREVENTED, find_preference_blockers
from dovetail.core.wording import message, sentence
from dovetail.model.kinds import NODE, NODE_CLAIM, NODE_POOL, POD
from dovetail.model.pause import UNREAD
from dovetail.model.reason import Reason
from dovetail.model.refusal import Refusal, RefusalCode, nodepool_ref
from dovetail.model.snapshot import ClusterNode
from dovetail.ports.cluster import Notice

REPEAT_AFTER = timedelta(minutes=30)
"""The API server drops an event after an hour; a finding that persists is published again before that."""
REPEAT_NAMING_AFTER = timedelta(minutes=15)
"""Refusals that name a pod are published once in this time, whichever pod they name."""
_POD_SPECIFIC = frozenset({RefusalCode.UNSCHEDULABLE, RefusalCode.CANT_REPLACE, RefusalCode.DRAIN_WOULD_STALL})
MAX_REMEMBERED = 200_000
PREFERENCE_INTERVAL = timedelta(minutes=10)
"""How often pods are searched whose preferences prevent consolidation: the search simulates all nodes."""
log = logging.getLogger(__name__)


class DisruptionEvents:
    """Publishes events and remembers when each was last published."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._published_at: dict[Hashable, datetime] = {}
        self._preferences_checked_at: datetime | None = None

    def report_refusals(self, method: str, refusals: Iterable[Refusal], context: PassContext) -> None:
        """Publish on each node why a method does not disrupt it."""
        now = self._context.clock.now()
        fresh = [
            each
            for each in refusals
            if each.code in TOLD
            and not (
                each.code in _POD_SPECIFIC
                and self._was_published((method, each.object, each.code), now, REPEAT_NAMING_AFTER)
            )
            and self._should_publish(each, now)
        ]
        self._published_at.update(
            {(method, each.object, each.code): now for each in fresh if each.code in _POD_SPECIFIC}
        )
        nodes = {node.name: node for node in context.snapshot.nodes} if fresh else {}
        for refusal in fresh:
            node = nodes.get(refusal.object.name)
            if node is not None:
                self._on_node(node, *refused(method, refusal))

    def report_stale_caches(self, context: PassContext) -> bool:
        """Publish on each NodePool that caches are stale; return whether any is."""
        stale = [informer.kind.plural for informer in self._context.state.stale()]
        for pool in context.snapshot.nodepools.values() if stale else ():
            self._publish(Notice(NODE_POOL, pool, BLOCKED, stale_caches(stale), warning=True))
        return bool(stale)

    async def report_preferences(self, refusals: Iterable[Refusal], context: PassContext) -> None:
        """Publish on pods that their preferences prevent consolidation; searches at most every ten minutes."""
        now = self._context.clock.now()
        if self._preferences_checked_at is not None and now - self._preferences_checked_at < PREFERENCE_INTERVAL:
            return
        prevented = [each for each in refusals if each.code in PREVENTED]
        self._preferences_checked_at = now if prevented else None
        for each in await self._context.compute.run(partial(find_preference_blockers, prevented, context)):
            if self._should_publish((PREFERENCE, each.pod.metadata.uid, each.node), now):
                facts = {"pod": str(each.pod.key), "prefers": " and ".join(each.kinds), "node": each.node}
                log.info("pod has a preference which prevents consolidation", extra=facts)
                self._context.recorder.publish(Notice(POD, each.pod, PREFERENCE, sentence(message(each.refusal))))

    def report_pauses(self, context: PassContext) -> None:
        """Publish on each NodePool whose disruption is paused by a user."""
        for name, pool in context.snapshot.nodepools.items():
            pause = context.snapshot.pause_of(name)
            if pause is not None and context.snapshot.pause != UNREAD:
                self._publish(Notice(NODE_POOL, pool, PAUSED, sentence(str(pause)), warning=bool(pause.fault)))

    def report_drift_loops(self, context: PassContext) -> None:
        """Publish on each NodePool whose drift is stopped because the replacements have drifted as well."""
        loops = context.drift_loops
        for name, reason in loops:
            refusal = loop_refusal(nodepool_ref(name), name, reason, loops)
            text = sentence(message(refusal)) if refusal is not None else ""
            self._publish(Notice(NODE_POOL, context.snapshot.nodepools[name], BLOCKED, text, warning=True))
        self._context.metrics.show("dovetail_nodepools_drift_stopped", dict.fromkeys(loops, 1.0))

    def report_budgets(self, reason: Reason, context: PassContext) -> None:
        """Publish on each NodePool whose budgets allow no disruption for a reason, or are invalid."""
        for name, pool in context.snapshot.nodepools.items():
            if not budgets_apply(pool, reason):
                continue
            allowed = context.allowance(name, reason)
            if allowed.fault:
                self._publish(Notice(NODE_POOL, pool, BLOCKED, unreadable_budget(allowed.fault), warning=True))
            elif allowed.limit == 0 and context.counts(name).total:
                self._publish(Notice(NODE_POOL, pool, BLOCKED, blocking_budget(reason)))

    def report_candidate(self, command: Command, context: PassContext) -> None:
        """Publish a consolidation before its validation: its replacement, and its score under the Balanced policy."""
        if command.reason != Reason.UNDERUTILIZED:
            return
        for candidate in command.candidates if command.replacements else ():
            self._on_node(candidate.node, CANDIDATE, considered(command, candidate.name))
        for pool in {each.pool.name: each.pool for each in command.candidates}.values():
            if pool.consolidation_policy != BALANCED:
                continue
            text = approved(weigh(command, pool, context))
            if len(command.candidates) > 1:
                self._publish(Notice(NODE_POOL, pool, APPROVED, text))
            else:
                self._on_node(command.candidates[0].node, APPROVED, text)

    def report_rejected(self, command: Command, refusal: Refusal) -> None:
        """Publish that a consolidation failed validation."""
        for candidate in command.candidates:
            self._on_node(candidate.node, REJECTED, rejected(command, candidate.name, message(refusal)))

    def _on_node(self, node: ClusterNode, reason: str, text: str) -> None:
        if node.node is not None:
            self._publish(Notice(NODE, node.node, reason, text))
        if node.claim is not None:
            self._publish(Notice(NODE_CLAIM, node.claim, reason, text))

    def _publish(self, notice: Notice) -> None:
        key = (notice.kind.name, notice.about.metadata.uid, notice.reason, notice.message)
        if self._should_publish(key, self._context.clock.now()):
            self._context.recorder.publish(notice)

    def _should_publish(self, key: Hashable, now: datetime) -> bool:
        """Whether the key was not published within `REPEAT_AFTER`; marks it as published now."""
        if self._was_published(key, now, REPEAT_AFTER):
            return False
        if len(self._published_at) >= MAX_REMEMBERED:
            self._published_at.clear()  # the recorder still drops what it published within two minutes
        self._published_at[key] = now
        return True

    def _was_published(self, key: Hashable, now: datetime, within: timedelta) -> bool:
        last_at = self._published_at.get(key)
        return last_at is not None and now - last_at < within
