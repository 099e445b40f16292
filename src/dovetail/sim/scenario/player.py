"""Plays a scenario on a world: scales workloads, runs Jobs, and applies the events of the scenario.

`simulate` and `demo` both use it. The player changes only what users and clouds change; everything else is decided by
the controllers. Each workload and each event runs as a task with its own random stream, derived from the scenario's
seed, so that changing one does not affect the others; the noise of `scale` events comes from one stream, in order of
time. The names of the streams are part of recorded results and must not change.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from random import Random
from typing import Any

from dovetail.model import kinds
from dovetail.model.kube_object import Key
from dovetail.model.labels import CAPACITY_TYPE, NODEPOOL
from dovetail.model.node import Node
from dovetail.model.pod import Pod
from dovetail.ports.cluster import Patch
from dovetail.ports.errors import NotFound
from dovetail.sim.kubernetes.kinds import DEPLOYMENTS, JOBS, NODE, REPLICAS, Resource
from dovetail.sim.scenario import manifests
from dovetail.sim.scenario.document import (
    NodeCondition,
    NodeSelection,
    ObjectPatch,
    Scenario,
    ScenarioEvent,
    Workload,
    numbered,
)
from dovetail.sim.scenario.parsing import Plain, share
from dovetail.sim.scenario.trace import Arrival
from dovetail.sim.world import World

KEPT_JOBS = 2


_NODE_ACTIONS = ("interrupt", "fail", "vanish", "delete_nodes")


def act_on_node(world: World, action: str, node: str) -> None:
    """Apply an action of a scenario or a torture trial to a node; see `InstanceFailures` for each of them."""
    actions: dict[str, Callable[[str], None]] = {
        "interrupt": world.instance_failures.reclaim_spot,
        "fail": world.instance_failures.lose,
        "vanish": world.instance_failures.vanish,
        "kill": world.instance_failures.kill,
        "remove_node": world.instance_failures.remove_node,
        "delete_nodes": lambda name: world.api.delete(NODE, Key("", name)),
    }
    actions[action](node)


@dataclass(frozen=True, slots=True)
class NodeAction:
    """One action of the player, for views that show it."""

    name: str  # "event", "none" (the event found nothing to act on), or the field of the event
    about: str  # the title of the event, or the name of the node or object
    pods: int = 0  # on the node, that have to be rescheduled
    details: tuple[str, ...] = ()


class Player:
    """Plays one scenario. `title` is the title of the last event; `show` is called with every action."""

    def __init__(
        self,
        world: World,
        scenario: Scenario,
        trace: Sequence[Arrival] = (),
        show: Callable[[NodeAction], None] = lambda _: None,
    ) -> None:
        self.title = ""
        self._world = world
        self._scenario = scenario
        self._trace = trace
        self._show = show
        self._noise = self._random("story")
        self._missed = {
            number: f"events[{number}] is after the end of the scenario"
            for number, each in enumerate(scenario.events)
            if each.at.seconds > scenario.lasts.seconds
        }

    @property
    def missed(self) -> tuple[str, ...]:
        """A message for each event, and one for trace groups, that had no effect: too late or nothing to act on."""
        messages = [why for _, why in sorted(self._missed.items())]
        end = self._scenario.lasts.seconds
        if late := [group.name for group in self._trace if group.arrive > end]:
            count = f"{len(late)} of {len(self._trace)} groups of the trace"
            messages.append(f"{count} arrive after the end of the scenario, {', '.join(late[:3])} first")
        return tuple(messages)

    def prepare(self) -> None:
        """Create the objects of the scenario and the PodDisruptionBudgets of its workloads."""
        for plain in self._scenario.objects:
            self._world.apply(plain)
        for work in self._scenario.workloads:
            budget = manifests.disruption_budget(work)
            if budget is not None:
                self._world.apply(budget)

    async def play(self) -> None:
        """Play until all workloads and events are done, or until cancelled."""
        async with asyncio.TaskGroup() as parts:
            for work in self._scenario.workloads:
                parts.create_task(self._repeat_job(work) if work.runs else self._scale(work))
            for number, event in enumerate(self._scenario.events):
                parts.create_task(self._repeat_event(event, number))
            if self._trace:
                parts.create_task(self._play_trace())

    @asynccontextmanager
    async def playing(self) -> AsyncIterator[None]:
        """Play while inside the context. An error of the player is raised at its end and replaces one from inside."""
        task = asyncio.get_running_loop().create_task(self.play(), name="player")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    def _random(self, what: str) -> Random:
        return Random(f"{self._scenario.seed}/{what}")  # noqa: S311 - reproducible, not secret

    async def _until(self, at: float) -> None:
        await asyncio.sleep(max(0.0, at - asyncio.get_running_loop().time()))

    async def _scale(self, work: Workload) -> None:
        random = self._random(f"workload/{work.namespace}/{work.name}")
        for at, replicas in manifests.turns(work, self._scenario.start, self._scenario.lasts.seconds, random):
            await self._until(at)
            self._world.apply(manifests.deployment(work, replicas))

    async def _repeat_job(self, work: Workload) -> None:
        assert work.runs is not None, "called only for workloads with runs"
        number = 0
        while True:
            await self._until(number * work.runs.every.seconds)
            self._world.apply(manifests.job(work, number))
            self._remove(JOBS, Key(work.namespace, f"{work.name}-{number - KEPT_JOBS}"))
            number += 1

    async def _play_trace(self) -> None:
        """Create and delete the groups of the trace; at one instant, departures come before arrivals."""
        moves = [(group.arrive, 1, group) for group in self._trace]
        moves += [(group.leave, 0, group) for group in self._trace if group.leave is not None]
        for at, arrives, group in sorted(moves, key=lambda move: (move[0], move[1], move[2].name)):
            await self._until(at)
            if arrives:
                self._world.apply(manifests.arrival(group))
            else:
                self._remove(REPLICAS, Key(group.namespace, group.name))

    async def _repeat_event(self, event: ScenarioEvent, number: int) -> None:
        random = self._random(f"happening/{number}")  # the name of the stream in recorded results
        for round_number in count(1):
            at = event.at.seconds + (round_number - 1) * (event.every.seconds if event.every else 0.0)
            await self._until(at)
            if not self._act(event, random, round_number):
                why = f"events[{number}] found nothing to act on at {timedelta(seconds=at)}"
                self._missed.setdefault(number, why)
                self._show(NodeAction("none", event.title))
            if event.every is None:
                return

    def _act(self, event: ScenarioEvent, random: Random, round_number: int) -> bool:
        """Apply an event; returns whether it found anything to act on."""
        self.title = event.title or self.title
        if event.scale is not None:
            return self._scale_deployments(event, event.scale)
        if event.run_job is not None:
            return self._run_job(event, event.run_job, round_number)
        self._show(NodeAction("event", event.title))
        if event.apply is not None:
            self._world.apply(dict(event.apply))
            return True
        if event.patch is not None:
            return self._patch(event.patch, round_number)
        return self._act_on_nodes(event, random)

    def _scale_deployments(self, event: ScenarioEvent, scale: Mapping[str, int]) -> bool:
        changes: list[str] = []
        for name, number in scale.items():
            key = Key(*name.split("/", 1)) if "/" in name else Key("default", name)
            found = self._world.store.find(DEPLOYMENTS, key)
            if found is not None:
                replicas = round(number * (1 + event.noise * self._noise.uniform(-1, 1)))
                changes.append(f"{name} {found.plain['spec'].get('replicas', 1)} -> {replicas}")
                self._world.api.patch(DEPLOYMENTS, key, Patch({"spec": {"replicas": replicas}}))
        self._show(NodeAction("event", event.title, details=tuple(changes)))
        return bool(changes)

    def _run_job(self, event: ScenarioEvent, job: Plain, round_number: int) -> bool:
        """Create the Job as NAME-ROUND and delete the Job of the previous round with its pods."""
        meta, spec = job["metadata"], job["spec"]
        namespace = meta.get("namespace", "default")
        self._remove(JOBS, Key(namespace, f"{meta['name']}-{round_number - 1}"))
        named = {**meta, "namespace": namespace, "name": f"{meta['name']}-{round_number}"}
        self._world.apply({**job, "metadata": named})
        pods, at_once = spec.get("completions", 1), spec.get("parallelism", 1)
        self._show(NodeAction("event", event.title, details=(f"{meta['name']}: {pods} pods, {at_once} at a time",)))
        return True

    def _patch(self, target: ObjectPatch, round_number: int) -> bool:
        resource = _resource(target.kind)
        keys = [Key(target.namespace, target.name)]
        if not target.name:
            keys = [each.key for each in self._world.store.all(resource)]
        patch = numbered(target.patch, round_number)
        for key in keys:
            self._show(NodeAction("patch", f"{target.kind} {key.name}", details=tuple(_leaves(patch))))
            try:
                self._world.api.patch(resource, key, Patch(patch))
            except NotFound:
                return False
        return bool(keys)

    def _act_on_nodes(self, event: ScenarioEvent, random: Random) -> bool:
        """Apply an event to the nodes it selects; its only field that is set names the action."""
        action = next(field for field in (*_NODE_ACTIONS, "set_condition") if getattr(event, field) is not None)
        selection: NodeSelection = getattr(event, action)
        condition = selection if isinstance(selection, NodeCondition) else None
        details = (f"{condition.type} is {condition.status}",) if condition is not None else ()
        nodes = self._selected_nodes(selection, random)
        for node in nodes:
            self._show(NodeAction(action, node.name, self._pods_to_reschedule(node), details))
            if condition is not None:
                self._world.instance_failures.turn(node.name, condition.type, condition.status, condition.reason)
            else:
                act_on_node(self._world, action, node.name)
        return bool(nodes)

    def _selected_nodes(self, selection: NodeSelection, random: Random) -> list[Node]:
        labels = {CAPACITY_TYPE: selection.capacity_type, NODEPOOL: selection.nodepool}
        required = {key: value for key, value in labels.items() if value}
        nodes = [
            node
            for node in self._world.values(kinds.NODE)
            if node.ready
            and node.deleting is selection.draining
            and all(node.metadata.labels.get(key) == value for key, value in required.items())
        ]
        number = min(share(selection.nodes, len(nodes)) or 0, len(nodes))
        if selection.choose == "busiest":
            return sorted(nodes, key=lambda node: (self._pods_to_reschedule(node), node.name), reverse=True)[:number]
        return random.sample(sorted(nodes, key=lambda node: node.name), number)

    def _pods_to_reschedule(self, node: Node) -> int:
        """The number of pods that would have to be rescheduled without the node."""
        pods = (record.value(kinds.POD) for record in self._world.pods_on(node.name))
        return sum(isinstance(pod, Pod) and pod.reschedulable for pod in pods)

    def _remove(self, resource: Resource, key: Key) -> None:
        if self._world.store.find(resource, key) is not None:
            self._world.api.delete(resource, key)


def _leaves(patch: Plain, path: str = "") -> Iterator[str]:
    """Each field that a patch sets, as path=value."""
    for name, value in patch.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{path}{name}.")
        else:
            yield f"{path}{name}={value}"


def _resource(kind: str) -> Resource:
    """The resource of a kind, by the name of the kind."""
    known: dict[str, Any] = {each.name: each for each in vars(kinds).values() if isinstance(each, kinds.Kind)}
    if kind in known:
        return known[kind].group, kind
    return ("apps", kind) if kind in {"Deployment", "ReplicaSet"} else ("", kind)
