"""A story lived through while the API server misbehaves: real client and controllers, over HTTP, on virtual time."""

import asyncio
from contextlib import asynccontextmanager

from dovetail.sim.kubernetes.kinds import NODE
from dovetail.sim.world import World, WorldOptions
from dovetail.wiring.assembly import assemble
from dovetail.wiring.embedded import admit
from faults.server import Fault, connected, serving
from faults.socket_loop import run
from stories import ACTING, Life, deployment, node_class, pool

LASTS = 300.0
RECOVERS = 60.0


class Http(Life):
    """The controllers on a world that they reach over HTTP."""

    def __init__(self, server, cluster):
        self.server = server
        self.cluster = cluster
        self.violations = []
        super().__init__(server.world, ACTING)
        server.world.store.listen((NODE,), self._hear)

    def _parts(self):
        return assemble(self.cluster, self.server.world.clock, self.settings)

    def _hear(self, step):
        if step.type == "DELETED":
            left = [each.key.name for each in self.world.pods_on(step.after.key.name) if each.active]
            if left:
                self.violations.append((step.after.key.name, left))

    def knows(self):
        """Whether nothing is stale, and the caches of pods and nodes are what the cluster has."""
        state = self.parts.manager.state
        pods = {pod.key: pod.metadata.uid for pod in self.pods} == {
            key: pod.metadata.uid for key, pod in state.pods.items.items()
        }
        nodes = {node.key for node in self.nodes} == set(state.nodes.items)
        return pods and nodes and not state.pods.unreadable and not self.parts.missing()

    @property
    def alive(self):
        return self._running is not None and not self._running.done()


@asynccontextmanager
async def living():
    async with World(WorldOptions(), validate=admit) as world, serving(world) as server, connected(server) as cluster:
        life = Http(server, cluster)
        for manifest in (node_class(), pool(), deployment(replicas=3)):
            world.apply(manifest)
        life.start()
        try:
            yield life
        finally:
            await life.stop()


def survive(make_fault, during=None, recovers=RECOVERS, empty=10.0, known_empty=False):
    """Live through a fault and check what has to hold.

    The Deployment has no pods for `empty` seconds; with `known_empty` the controllers hear of that before the fault.
    """

    async def main():
        async with living() as life:
            await life.until(lambda: life.running(3) and life.settled())
            fault = make_fault()
            if not known_empty:
                life.server.fault = fault
            life.world.apply(deployment(replicas=0))
            if known_empty:
                await life.until(lambda: not life.parts.manager.state.pods.items)
                life.server.fault = fault
            await asyncio.sleep(empty)
            life.world.apply(deployment(replicas=3))
            await asyncio.sleep(LASTS)
            assert life.alive
            if during is not None:
                during(life)
            fault.end()
            life.server.fault, over_at = Fault(), asyncio.get_running_loop().time()
            await life.until(lambda: life.running(3) and life.knows(), within=recovers)
            print(f"recovered after {asyncio.get_running_loop().time() - over_at:.0f} s")  # noqa: T201 - with -s
            assert life.alive
            assert not life.violations
            life.world.apply(deployment(replicas=0))
            await life.until(lambda: not life.nodes, within=120)
            assert not life.violations

    run(main())
