"""All controllers over one set of ports, started together and stopped together."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import fields
from typing import Any

from dovetail.controllers.advice import Advisor
from dovetail.controllers.bookkeeping import Bookkeeper
from dovetail.controllers.context import Context, Ports
from dovetail.controllers.disruption import Disruption
from dovetail.controllers.executor import Executor
from dovetail.controllers.expiration import Expiration
from dovetail.controllers.garbage import GarbageCollection
from dovetail.controllers.gauges import Gauges
from dovetail.controllers.hydration import Hydration
from dovetail.controllers.interruption import Interruptions
from dovetail.controllers.lifecycle import Lifecycle
from dovetail.controllers.marking import Marking, ProtectionNotices
from dovetail.controllers.nodeclasses import NodeClasses
from dovetail.controllers.nodepools import NodePools
from dovetail.controllers.overhearing import Overhearing
from dovetail.controllers.podevents import PodEvents
from dovetail.controllers.provisioning import Provisioner
from dovetail.controllers.repair import NodeRepair
from dovetail.controllers.state import ClusterState
from dovetail.controllers.termination import Termination
from dovetail.controllers.transitions import Transitions, count_reconciles
from dovetail.controllers.unreadable import UnreadableNotices
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
        context = Context(**given, state=state, settings=settings)
        self.state = state
        self.provisioner = Provisioner(context)
        self.nodepools = NodePools(context)
        self.lifecycle = Lifecycle(context, self.nodepools.registration_ended)
        self.termination = Termination(context)
        self.expiration = Expiration(context)
        self.garbage = GarbageCollection(context)
        self.repair = NodeRepair(context)
        self.interruptions = Interruptions(context)
        self.podevents = PodEvents(context)
        self.hydration = Hydration(context)
        self.marking = Marking(context)
        self.protection_notices = ProtectionNotices(context)
        self.unreadable_notices = UnreadableNotices(context)
        self.executor = Executor(context)
        self.disruption = Disruption(context, self.executor)
        self.bookkeeper = Bookkeeper(context)
        self.node_classes = (
            NodeClasses(
                context, ports.node_classes, self.nodepools.node_class_changed, self.marking.node_class_redefined
            )
            if ports.node_classes is not None
            else None
        )
        self.transitions = Transitions(context)
        self.gauges = Gauges(context, self._reconcilers(), self.transitions)
        if self.node_classes is not None:
            self.transitions.follow(self.node_classes.informer)
            self.gauges.follow(self.node_classes.informer)
            self.unreadable_notices.follow(self.node_classes.informer)
        for reconciler in self._reconcilers() if ports.seen else ():
            reconciler.told = count_reconciles(context)
        self.advisor = Advisor(context, self.nodepools, self.marking)
        self.overhearing = Overhearing(context, self.interruptions, self.advisor)
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
