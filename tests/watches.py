"""Watches that stay open and deliver nothing for a while, on the embedded world."""

import asyncio

from dovetail.sim.world import World


class SilentWatches:
    """Holds back what the watches of a kind deliver until an instant of the virtual loop."""

    def __init__(self, monkeypatch):
        self._until = {}
        watch = World.watch

        def delayed(world, kind, *args, **kwargs):
            return self._delay(watch(world, kind, *args, **kwargs), kind.name)

        monkeypatch.setattr(World, "watch", delayed)

    def silence(self, kind, seconds):
        """Deliver nothing about `kind` for that many seconds; afterwards everything that was held back."""
        self._until[kind.name] = asyncio.get_running_loop().time() + seconds

    async def _delay(self, stream, kind):
        async for change in stream:
            left = self._until.get(kind, 0.0) - asyncio.get_running_loop().time()
            if left > 0:
                await asyncio.sleep(left)
            yield change


class Terminations:
    """Every Node object that was removed, with the pods that still ran on it in the API server at that instant.

    With the kwok provider the Node object is the instance.
    """

    def __init__(self, world):
        self._world = world
        self.nodes = []
        self.killed_pods = []
        world.store.listen_to_all(self._hear)

    def _hear(self, step):
        if step.after.resource[1] == "Node" and step.type == "DELETED":
            name = step.after.key.name
            self.nodes.append(name)
            running = [pod for pod in self._world.pods_on(name) if not pod.deleting and _running(pod.plain)]
            self.killed_pods.extend(str(pod.key) for pod in running)


def _running(pod):
    return (pod.get("status") or {}).get("phase") not in {"Succeeded", "Failed"}
