"""Constructs all controllers over one set of ports, and runs them with their informers in one task group.

An exception that a controller does not handle ends all of them. With `--dry-run` only the dry run controllers run; with
disruption off, the controllers that start and execute disruption commands do not.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import fields
from typing import Any

from dovetail.controllers.cluster_state import ClusterState
from dovetail.controllers.context import ControllerContext, Ports, ProviderPorts
from dovetail.controllers.disruption import DisruptionController
from dovetail.controllers.disruption_queue import DisruptionQueue
from dovetail.controllers.dry_run import DryRun, DryRunInterruptions
from dovetail.controllers.expiration import ExpirationController
from dovetail.controllers.garbage_collection import GarbageCollection
from dovetail.controllers.interruption import InterruptionController
from dovetail.controllers.ledger import LedgerController
from dovetail.controllers.metrics.cluster import ClusterMetrics
from dovetail.controllers.metrics.conditions import ConditionMetrics
from dovetail.controllers.metrics.pods import PodMetrics
from dovetail.controllers.metrics.reconcilers import ReconcilerMetrics
from dovetail.controllers.node_opening import NodeOpening
from dovetail.controllers.node_repair import NodeRepair
from dovetail.controllers.nodeclaim_conditions import DoNotDisruptEvents, NodeClaimConditionsController
from dovetail.controllers.nodeclaim_consistency import NodeClaimConsistency
from dovetail.controllers.nodeclaim_lifecycle import Hydration, NodeClaimLifecycle
from dovetail.controllers.nodeclasses import NodeClassController
from dovetail.controllers.nodepools import NodePoolController
from dovetail.controllers.pod_events import PodEventsController
from dovetail.controllers.provisioner import Provisioner
from dovetail.controllers.savings import SavingsTracker
from dovetail.controllers.termination import TerminationController
from dovetail.controllers.unreadable_events import UnreadableObjectEvents
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.nodepool import NodeClassRef, NodePool
from dovetail.runtime.reconciler import Reconciler
from dovetail.settings import Settings


class Manager:
    """The controllers of one cluster."""

    def __init__(self, ports: Ports, settings: Settings) -> None:
        state = _new_state(ports, settings)
        self.savings = SavingsTracker(ports.ledger)
        port_fields = {each.name: getattr(ports, each.name) for each in fields(Ports)} | {"ledger": self.savings}
        context = ControllerContext(**port_fields, state=state, settings=settings)
        self.state = state
        _set_in_use(ports.providers, state)
        self.provisioner = Provisioner(context)
        self.nodepools = NodePoolController(context)
        self.lifecycle = NodeClaimLifecycle(context, self.nodepools.registration_ended)
        self.opening = NodeOpening(context)
        self.termination = TerminationController(context)
        self.expiration = ExpirationController(context)
        self.garbage = tuple(GarbageCollection(context, each) for each in ports.providers)
        self.repair = NodeRepair(context)
        self.interruptions = InterruptionController(context)
        self.pod_events = PodEventsController(context)
        self.label_hydration = Hydration(context)
        self.claim_conditions = NodeClaimConditionsController(context)
        self.consistency = NodeClaimConsistency(context)
        self.do_not_disrupt_events = DoNotDisruptEvents(context)
        self.unreadable_events = UnreadableObjectEvents(context)
        self.disruption_queue = DisruptionQueue(context)
        self.disruption = DisruptionController(context, self.disruption_queue)
        self.ledger = LedgerController(context, self.savings)
        changed, redefined = self.nodepools.node_class_changed, self.claim_conditions.node_class_redefined
        self.node_classes = tuple(
            NodeClassController(context, each.cloud, each.node_classes, changed, redefined)
            for each in ports.providers
            if each.node_classes is not None
        )
        self.condition_metrics = ConditionMetrics(context)
        reconcilers = ReconcilerMetrics(ports.metrics, self._reconcilers())
        self.gauges = ClusterMetrics(context, reconcilers, self.condition_metrics, PodMetrics(context))
        for node_classes in self.node_classes:
            self.condition_metrics.follow(node_classes.informer)
            self.unreadable_events.follow(node_classes.informer)
        if ports.seen:
            reconcilers.listen()
        self.dry_run = DryRun(context, self.nodepools, self.claim_conditions)
        self.dry_run_interruptions = DryRunInterruptions(context, self.interruptions, self.dry_run)
        self._is_dry_run = settings.dry_run
        self._disruption_enabled = settings.disruption == "on"

    def _reconcilers(self) -> list[Reconciler[Any]]:
        controllers = (*vars(self).values(), *self.node_classes)
        attributes = (value for each in controllers for value in getattr(each, "__dict__", {}).values())
        return [value for value in attributes if isinstance(value, Reconciler)]

    async def run(self) -> None:
        """Run all controllers until cancelled."""
        loops: tuple[Callable[[], Coroutine[None, None, None]], ...] = (
            self.provisioner.run,
            self.nodepools.run,
            self.lifecycle.run,
            self.opening.run,
            self.termination.run,
            self.expiration.run,
            *(each.run for each in self.garbage),
            self.repair.run,
            self.interruptions.run,
            self.pod_events.run,
            self.label_hydration.run,
            self.claim_conditions.run,
            self.consistency.run,
            self.do_not_disrupt_events.run,
            self.unreadable_events.run,
            self.ledger.run,
            *(each.run for each in self.node_classes),
        )
        if self._is_dry_run:
            loops = (self.dry_run.run, self.dry_run_interruptions.run)
        elif self._disruption_enabled:
            loops = (*loops, self.disruption.run, self.disruption_queue.run)
        async with asyncio.TaskGroup() as tasks:
            for informer in (*self.state.informers, self.state.switch):
                tasks.create_task(informer.run(), name=f"informer:{informer.kind.plural}")
            for loop in loops:
                tasks.create_task(loop(), name=loop.__qualname__)


def _new_state(ports: Ports, settings: Settings) -> ClusterState:
    return ClusterState(
        ports.cluster,
        ports.cloud.well_known_labels,
        settings.leader_election_namespace or "default",
        settings.watch_stale_after,
        relax_min_values=settings.relax_min_values,
    )


def _set_in_use(providers: Sequence[ProviderPorts], state: ClusterState) -> None:
    """Set `in_use` of each provider as soon as a NodePool or NodeClaim refers to one of its node classes."""

    def referred(ref: NodeClassRef) -> None:
        for each in providers:
            if not each.in_use.is_set() and each.cloud.supports(ref):
                each.in_use.set()

    def pool_changed(_: NodePool | None, after: NodePool | None) -> None:
        if after is not None:
            referred(after.node_class_ref)

    def claim_changed(_: NodeClaim | None, after: NodeClaim | None) -> None:
        if after is not None:
            referred(after.spec.node_class_ref)

    if not all(each.in_use.is_set() for each in providers):
        state.nodepools.listen(pool_changed)
        state.claims.listen(claim_changed)
