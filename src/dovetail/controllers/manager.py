"""Constructs all controllers over one set of ports, and runs them with their informers in one task group.

An exception that a controller does not handle ends all of them. With `--dry-run` only the dry run controllers run; with
disruption off, the controllers that start and execute disruption commands do not.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import fields
from typing import Any

from dovetail.controllers.cluster_state import ClusterState
from dovetail.controllers.context import ControllerContext, Ports
from dovetail.controllers.disruption import DisruptionController
from dovetail.controllers.disruption_queue import DisruptionQueue
from dovetail.controllers.dry_run import DryRun, DryRunInterruptions
from dovetail.controllers.expiration import ExpirationController
from dovetail.controllers.garbage_collection import GarbageCollection
from dovetail.controllers.interruption import InterruptionController
from dovetail.controllers.ledger import LedgerController
from dovetail.controllers.metrics.cluster import ClusterMetrics
from dovetail.controllers.metrics.conditions import ConditionMetrics, count_reconciles
from dovetail.controllers.node_repair import NodeRepair
from dovetail.controllers.nodeclaim_conditions import DoNotDisruptEvents, NodeClaimConditionsController
from dovetail.controllers.nodeclaim_lifecycle import Hydration, NodeClaimLifecycle
from dovetail.controllers.nodeclasses import NodeClassController
from dovetail.controllers.nodepools import NodePoolController
from dovetail.controllers.pod_events import PodEventsController
from dovetail.controllers.provisioner import Provisioner
from dovetail.controllers.termination import TerminationController
from dovetail.controllers.unreadable_events import UnreadableObjectEvents
from dovetail.runtime.reconciler import Reconciler
from dovetail.settings import Settings


class Manager:
    """The controllers of one cluster."""

    def __init__(self, ports: Ports, settings: Settings) -> None:
        state = ClusterState(
            ports.cluster,
            ports.cloud.well_known_labels,
            settings.leader_election_namespace or "default",
            settings.watch_stale_after,
        )
        port_fields = {each.name: getattr(ports, each.name) for each in fields(Ports)}
        context = ControllerContext(**port_fields, state=state, settings=settings)
        self.state = state
        self.provisioner = Provisioner(context)
        self.nodepools = NodePoolController(context)
        self.lifecycle = NodeClaimLifecycle(context, self.nodepools.registration_ended)
        self.termination = TerminationController(context)
        self.expiration = ExpirationController(context)
        self.garbage = GarbageCollection(context)
        self.repair = NodeRepair(context)
        self.interruptions = InterruptionController(context)
        self.pod_events = PodEventsController(context)
        self.label_hydration = Hydration(context)
        self.claim_conditions = NodeClaimConditionsController(context)
        self.do_not_disrupt_events = DoNotDisruptEvents(context)
        self.unreadable_events = UnreadableObjectEvents(context)
        self.disruption_queue = DisruptionQueue(context)
        self.disruption = DisruptionController(context, self.disruption_queue)
        self.ledger = LedgerController(context)
        self.node_classes: NodeClassController | None = None
        if ports.node_classes is not None:
            changed, redefined = self.nodepools.node_class_changed, self.claim_conditions.node_class_redefined
            self.node_classes = NodeClassController(context, ports.node_classes, changed, redefined)
        self.condition_metrics = ConditionMetrics(context)
        self.gauges = ClusterMetrics(context, self._reconcilers(), self.condition_metrics)
        if self.node_classes is not None:
            self.condition_metrics.follow(self.node_classes.informer)
            self.gauges.follow(self.node_classes.informer)
            self.unreadable_events.follow(self.node_classes.informer)
        for reconciler in self._reconcilers() if ports.seen else ():
            reconciler.on_result = count_reconciles(context)
        self.dry_run = DryRun(context, self.nodepools, self.claim_conditions)
        self.dry_run_interruptions = DryRunInterruptions(context, self.interruptions, self.dry_run)
        self._is_dry_run = settings.dry_run
        self._disruption_enabled = settings.disruption == "on"

    def _reconcilers(self) -> list[Reconciler[Any]]:
        attributes = (value for each in vars(self).values() for value in getattr(each, "__dict__", {}).values())
        return [value for value in attributes if isinstance(value, Reconciler)]

    async def run(self) -> None:
        """Run all controllers until cancelled."""
        loops: tuple[Callable[[], Coroutine[None, None, None]], ...] = (
            self.provisioner.run,
            self.nodepools.run,
            self.lifecycle.run,
            self.termination.run,
            self.expiration.run,
            self.garbage.run,
            self.repair.run,
            self.interruptions.run,
            self.pod_events.run,
            self.label_hydration.run,
            self.claim_conditions.run,
            self.do_not_disrupt_events.run,
            self.unreadable_events.run,
            self.ledger.run,
        )
        if self.node_classes is not None:
            loops = (*loops, self.node_classes.run)
        if self._is_dry_run:
            loops = (self.dry_run.run, self.dry_run_interruptions.run)
        elif self._disruption_enabled:
            loops = (*loops, self.disruption.run, self.disruption_queue.run)
        async with asyncio.TaskGroup() as tasks:
            for informer in (*self.state.informers, self.state.switch):
                tasks.create_task(informer.run(), name=f"informer:{informer.kind.plural}")
            for loop in loops:
                tasks.create_task(loop(), name=loop.__qualname__)
