"""Performs a scenario on a world: people, traffic and misfortune. What follows is the controllers' business.

All chance comes from the scenario's seed, and each workload has its own, so that changing one leaves the others alone.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from random import Random
from typing import Any

from dovetail.model import kinds
from dovetail.model.kube_object import Key
from dovetail.model.labels import CAPACITY_TYPE, NODEPOOL
from dovetail.model.node import Node
from dovetail.ports.cluster import Patch
from dovetail.ports.errors import NotFound
from dovetail.sim.kubernetes.kinds import JOBS, NODE, REPLICAS, Resource
from dovetail.sim.scenario import manifests
from dovetail.sim.scenario.document import Patched, Scenario, ScenarioEvent, Struck, Workload
from dovetail.sim.scenario.parsing import share
from dovetail.sim.scenario.trace import Arrival
from dovetail.sim.world import World

KEPT_JOBS = 2


class Player:
    """One performance."""

    def __init__(self, world: World, scenario: Scenario, trace: Sequence[Arrival] = ()) -> None:
        self._world = world
        self._scenario = scenario
        self._trace = trace
        self._missed = {
            number: f"happenings[{number}] comes after the end"
            for number, each in enumerate(scenario.happenings)
            if each.at.seconds > scenario.lasts.seconds
        }

    @property
    def missed(self) -> tuple[str, ...]:
        """What was not done, because its object was not there or its time never came."""
        end = self._scenario.lasts.seconds
        late = [group.name for group in self._trace if group.arrive > end]
        told = (
            f"{len(late)} of {len(self._trace)} groups of the trace arrive after the end, {', '.join(late[:3])} first"
        )
        return (*(why for _, why in sorted(self._missed.items())), *([told] if late else ()))

    def prepare(self) -> None:
        """Put everything into the cluster that is there from the start."""
        for plain in self._scenario.objects:
            self._world.apply(plain)
        for work in self._scenario.workloads:
            guard = manifests.disruption_budget(work)
            if guard is not None:
                self._world.apply(guard)

    async def play(self) -> None:
        """Play until the end of the story, or until cancelled."""
        async with asyncio.TaskGroup() as parts:
            for work in self._scenario.workloads:
                parts.create_task(self._repeat(work) if work.runs else self._scale(work))
            for number, happening in enumerate(self._scenario.happenings):
                parts.create_task(self._happen(happening, number))
            if self._trace:
                parts.create_task(self._follow())

    def _random(self, what: str) -> Random:
        return Random(f"{self._scenario.seed}/{what}")  # noqa: S311 - reproducible, not secret

    async def _until(self, at: float) -> None:
        await asyncio.sleep(max(0.0, at - asyncio.get_running_loop().time()))

    async def _scale(self, work: Workload) -> None:
        random = self._random(f"workload/{work.namespace}/{work.name}")
        for at, replicas in manifests.turns(work, self._scenario.start, self._scenario.lasts.seconds, random):
            await self._until(at)
            self._world.apply(manifests.deployment(work, replicas))

    async def _repeat(self, work: Workload) -> None:
        assert work.runs is not None, "asked only of workloads that run again and again"
        number = 0
        while True:
            await self._until(number * work.runs.every.seconds)
            self._world.apply(manifests.job(work, number))
            self._remove(JOBS, Key(work.namespace, f"{work.name}-{number - KEPT_JOBS}"))
            number += 1

    async def _follow(self) -> None:
        """Let the groups of a trace come and go, each at its instant."""
        moves = [(group.arrive, 1, group) for group in self._trace]
        moves += [(group.leave, 0, group) for group in self._trace if group.leave is not None]
        for at, comes, group in sorted(moves, key=lambda move: (move[0], move[1], move[2].name)):
            await self._until(at)
            if comes:
                self._world.apply(manifests.arrival(group))
            else:
                self._remove(REPLICAS, Key(group.namespace, group.name))

    async def _happen(self, happening: ScenarioEvent, number: int) -> None:
        random = self._random(f"happening/{number}")
        at = happening.at.seconds
        while True:
            await self._until(at)
            if not self._act(happening, random):
                why = f"happenings[{number}] found nothing it could happen to at {timedelta(seconds=at)}"
                self._missed.setdefault(number, why)
            if happening.every is None:
                return
            at += happening.every.seconds

    def _act(self, happening: ScenarioEvent, random: Random) -> bool:
        """Let it happen; says whether there was anything it could happen to."""
        if happening.apply is not None:
            self._world.apply(dict(happening.apply))
            return True
        if happening.patch is not None:
            return self._patch(happening.patch)
        acts: tuple[tuple[Struck | None, Callable[[str], None]], ...] = (
            (happening.interrupt, self._world.instance_failures.reclaim_spot),
            (happening.fail, self._world.instance_failures.lose),
            (happening.delete_nodes, lambda name: self._remove(NODE, Key("", name))),
        )
        struck, act = next((struck, act) for struck, act in acts if struck is not None)
        nodes = self._struck(struck, random)
        for node in nodes:
            act(node.name)
        return bool(nodes)

    def _patch(self, wanted: Patched) -> bool:
        resource = _resource(wanted.kind)
        try:
            self._world.api.patch(resource, Key(wanted.namespace, wanted.name), Patch(dict(wanted.patch)))
        except NotFound:
            return False
        return True

    def _struck(self, struck: Struck, random: Random) -> list[Node]:
        labels = {CAPACITY_TYPE: struck.capacity_type, NODEPOOL: struck.nodepool}
        wanted = {key: value for key, value in labels.items() if value}
        nodes = [
            node
            for node in self._world.values(kinds.NODE)
            if node.ready
            and node.deleting is struck.draining
            and all(node.metadata.labels.get(key) == value for key, value in wanted.items())
        ]
        number = min(share(struck.nodes, len(nodes)) or 0, len(nodes))
        return random.sample(sorted(nodes, key=lambda node: node.name), number)

    def _remove(self, resource: Resource, key: Key) -> None:
        if self._world.store.find(resource, key) is not None:
            self._world.api.delete(resource, key)


def _resource(kind: str) -> Resource:
    """Where objects of a kind are kept, by its name."""
    known: dict[str, Any] = {each.name: each for each in vars(kinds).values() if isinstance(each, kinds.Kind)}
    if kind in known:
        return known[kind].group, kind
    return ("apps", kind) if kind in {"Deployment", "ReplicaSet"} else ("", kind)
