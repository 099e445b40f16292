"""All controllers over one set of ports, started together and stopped together."""

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
        given = {each.name: getattr(ports, each.name) for each in fields(Ports)}
        context = ControllerContext(**given, state=state, settings=settings)
        self.state = state
        self.provisioner = Provisioner(context)
        self.nodepools = NodePoolController(context)
        self.lifecycle = NodeClaimLifecycle(context, self.nodepools.registration_ended)
        self.termination = TerminationController(context)
        self.expiration = ExpirationController(context)
        self.garbage = GarbageCollection(context)
        self.repair = NodeRepair(context)
        self.interruptions = InterruptionController(context)
        self.podevents = PodEventsController(context)
        self.hydration = Hydration(context)
        self.marking = NodeClaimConditionsController(context)
        self.protection_notices = DoNotDisruptEvents(context)
        self.unreadable_notices = UnreadableObjectEvents(context)
        self.executor = DisruptionQueue(context)
        self.disruption = DisruptionController(context, self.executor)
        self.bookkeeper = LedgerController(context)
        self.node_classes = (
            NodeClassController(
                context, ports.node_classes, self.nodepools.node_class_changed, self.marking.node_class_redefined
            )
            if ports.node_classes is not None
            else None
        )
        self.transitions = ConditionMetrics(context)
        self.gauges = ClusterMetrics(context, self._reconcilers(), self.transitions)
        if self.node_classes is not None:
            self.transitions.follow(self.node_classes.informer)
            self.gauges.follow(self.node_classes.informer)
            self.unreadable_notices.follow(self.node_classes.informer)
        for reconciler in self._reconcilers() if ports.seen else ():
            reconciler.told = count_reconciles(context)
        self.advisor = DryRun(context, self.nodepools, self.marking)
        self.overhearing = DryRunInterruptions(context, self.interruptions, self.advisor)
        self._dry = settings.dry_run
        self._disrupts = settings.disruption == "on"

    def _reconcilers(self) -> list[Reconciler[Any]]:
        held = (value for each in vars(self).values() for value in getattr(each, "__dict__", {}).values())
        return [value for value in held if isinstance(value, Reconciler)]

    async def run(self) -> None:
        """Run until cancelled. What one of them cannot handle ends all of them."""
        loops: tuple[Callable[[], Coroutine[None, None, None]], ...] = (
            self.provisioner.run,
            self.nodepools.run,
            self.lifecycle.run,
            self.termination.run,
            self.expiration.run,
            self.garbage.run,
            self.repair.run,
            self.interruptions.run,
            self.podevents.run,
            self.hydration.run,
            self.marking.run,
            self.protection_notices.run,
            self.unreadable_notices.run,
            self.bookkeeper.run,
        )
        if self.node_classes is not None:
            loops = (*loops, self.node_classes.run)
        if self._dry:
            loops = (self.advisor.run, self.overhearing.run)
        elif self._disrupts:
            loops = (*loops, self.disruption.run, self.executor.run)
        async with asyncio.TaskGroup() as tasks:
            for informer in (*self.state.informers, self.state.switch):
                tasks.create_task(informer.run(), name=f"informer:{informer.kind.plural}")
            for loop in loops:
                tasks.create_task(loop(), name=loop.__qualname__)
