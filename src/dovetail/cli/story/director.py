"""Performs the story on the world, as people and traffic would: scaling, running Jobs, deleting a node, losing one.

Nothing is done here that belongs to the controllers: what follows from a step is theirs.
"""

import asyncio
import random
from collections.abc import Callable

from dovetail.cli.story.feed import DecisionFeed
from dovetail.cli.story.names import counted, short_name
from dovetail.cli.story.script import DemoStory, Plain, StoryStep
from dovetail.model import kinds
from dovetail.model.kube_object import Key
from dovetail.model.labels import CAPACITY_TYPE, NODEPOOL, SPOT
from dovetail.model.node import Node
from dovetail.model.pod import Pod
from dovetail.ports.cluster import Patch
from dovetail.sim.kubernetes.kinds import JOBS, NODE, NODE_POOL
from dovetail.sim.world import World

_NAMESPACE = "default"
_SWING = 0.1  # replicas vary by up to this share, with the seed


class Director:
    """One performance. `title` is the step being played, `replicas` what the Deployments were last told."""

    def __init__(self, world: World, feed: DecisionFeed, story: DemoStory, workloads: tuple[Plain, ...]) -> None:
        self.title = ""
        self.replicas: dict[str, int] = {}
        self._world = world
        self._feed = feed
        self._story = story
        self._jobs = {each["metadata"]["name"]: each for each in workloads if each["kind"] == "Job"}
        self._standing = tuple(each for each in workloads if each["kind"] != "Job")
        self._rng = random.Random(f"{world.options.seed}/story")  # noqa: S311 - reproducible, not secret

    def prepare(self, nodepools: tuple[Plain, ...]) -> None:
        """Put everything into the cluster that is there before the story starts."""
        for plain in (*nodepools, *self._standing):
            self._world.apply(plain)

    async def play(self) -> None:
        """Play step after step until cancelled."""
        loop = asyncio.get_running_loop()
        for due, round_number, step in self._story.moments():
            await asyncio.sleep(max(0.0, due - loop.time()))
            self._perform(step, round_number)

    def _perform(self, step: StoryStep, round_number: int) -> None:
        self.title = step.title
        changes = [self._scale(name, number) for name, number in step.scale.items()]
        if step.run:
            changes.append(self._run_job(step.run, round_number))
        self._feed.tell("story", f"{step.title} ({', '.join(changes)})" if changes else step.title)
        if step.act == "delete-node":
            self._delete_node()
        elif step.act == "lose-instance":
            self._lose_instance()
        elif step.act == "change-template":
            self._change_template(round_number)
        elif step.act == "reclaim-spot":
            self._reclaim_spot()
        elif step.act == "deadlock-kernel":
            self._deadlock_kernel()

    def _scale(self, name: str, number: int) -> str:
        replicas = max(1, round(number * self._rng.uniform(1 - _SWING, 1 + _SWING)))
        before, self.replicas[name] = self.replicas.get(name, 0), replicas
        meta = {"name": name, "namespace": _NAMESPACE}
        spec = {"replicas": replicas}
        self._world.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec})
        return f"{name} {before} -> {replicas}"

    def _run_job(self, name: str, round_number: int) -> str:
        job = self._jobs[name]
        last = Key(_NAMESPACE, f"{name}-{round_number - 1}")
        if self._world.store.find(JOBS, last) is not None:
            self._world.api.delete(JOBS, last)
        self._world.apply({**job, "metadata": {**job["metadata"], "name": f"{name}-{round_number}"}})
        return f"{name}: {job['spec']['completions']} pods, {job['spec']['parallelism']} at a time"

    def _delete_node(self) -> None:
        node = self._busiest()
        if node is not None:
            pods = self._load(node)
            self._feed.tell("user", f"{short_name(node.name)}: node deleted by hand, {counted(pods, 'pod')} on it")
            self._world.api.delete(NODE, node.key)

    def _lose_instance(self) -> None:
        """The machine and its Node go, past every finalizer: nobody drains, and the NodeClaim is left behind."""
        node = self._busiest()
        if node is not None:
            pods = self._load(node)
            self._feed.tell("lost", f"{short_name(node.name)}: instance vanished with {counted(pods, 'pod')}")
            self._world.instance_failures.vanish(node.name)

    def _reclaim_spot(self) -> None:
        """Gone after two minutes, whoever is still on it."""
        node = self._busiest(lambda node: node.metadata.labels.get(CAPACITY_TYPE) == SPOT)
        if node is not None:
            pods = self._load(node)
            self._feed.tell("cloud", f"{short_name(node.name)}: reclaimed in 2m, {counted(pods, 'pod')} on it")
            self._world.instance_failures.reclaim_spot(node.name)

    def _deadlock_kernel(self) -> None:
        """An agent on the node reports what nothing on it can mend."""
        repaired = {pool.name for pool in self._world.values(kinds.NODE_POOL) if pool.spec.repair is not None}
        node = self._busiest(lambda node: not repaired or node.metadata.labels.get(NODEPOOL) in repaired)
        if node is not None:
            self._feed.tell("sick", f"{short_name(node.name)}: KernelDeadlock is True")
            self._world.instance_failures.turn(node.name, "KernelDeadlock", "True", "AUFSUmountHung")

    def _change_template(self, round_number: int) -> None:
        """Every pool's nodes get one more label from now on: those that lack it have drifted."""
        label = {"spec": {"template": {"metadata": {"labels": {"demo/generation": f"g{round_number + 1}"}}}}}
        for pool in self._world.values(kinds.NODE_POOL):
            self._feed.tell(
                "change", f"nodepool {pool.name}: nodes shall be labelled demo/generation=g{round_number + 1}"
            )
            self._world.api.patch(NODE_POOL, pool.key, Patch(label))

    def _busiest(self, wanted: Callable[[Node], bool] = lambda _: True) -> Node | None:
        nodes = self._world.values(kinds.NODE)
        ready = [node for node in nodes if node.ready and not node.deleting and wanted(node)]
        if not ready:
            self._feed.tell("user", "there is no node to choose")
        return max(ready, key=lambda node: (self._load(node), node.name), default=None)

    def _load(self, node: Node) -> int:
        """How many pods would have to move."""
        pods = (record.value(kinds.POD) for record in self._world.pods_on(node.name))
        return sum(isinstance(pod, Pod) and pod.reschedulable for pod in pods)
