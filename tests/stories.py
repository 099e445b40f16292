"""Stories on the embedded world: the real controllers, simulated nodes, virtual time."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dovetail.model.command import RECORD_ANNOTATION
from dovetail.model.kinds import EVENT, NODE, NODE_CLAIM, NODE_POOL, POD
from dovetail.model.labels import INSTANCE_TYPE, TERMINATION_FINALIZER
from dovetail.ports.compute import Compute
from dovetail.settings import Settings
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import World, WorldOptions
from dovetail.wiring.assembly import Assembly, assemble
from dovetail.wiring.embedded import admit

GENERIC = Settings(catalog="generic")


def node_class(name="default", **spec):
    return {
        "apiVersion": "karpenter.kwok.sh/v1alpha1",
        "kind": "KWOKNodeClass",
        "metadata": {"name": name},
        "spec": spec,
    }


def node_pool(name="default", template=None, template_metadata=None, **spec):
    ref = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    inner = {"nodeClassRef": ref, "requirements": [], **(template or {})}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": {"metadata": template_metadata or {}, "spec": inner}, **spec},
    }


def deployment(name="web", replicas=10, cpu="1", memory="2Gi", **pod_spec):
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [container], **pod_spec},
            },
        },
    }


def budget(name="web", **spec):
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": name}}, **spec},
    }


class Life:
    """A world, the controllers on it, and what a reader of a story wants to know."""

    def __init__(self, world: World, settings: Settings = GENERIC, compute: Compute | None = None) -> None:
        self.world = world
        self.settings = settings
        self.compute = compute
        self.parts: Assembly = self._parts()
        self._running: asyncio.Task[None] | None = None

    def _parts(self) -> Assembly:
        return assemble(self.world, self.world.clock, self.settings, compute=self.compute)

    def start(self) -> None:
        self._running = asyncio.get_running_loop().create_task(self.parts.run())

    async def stop(self) -> None:
        assert self._running is not None
        self._running.cancel()
        await asyncio.wait([self._running])
        await self.parts.supplier.aclose()
        if not self._running.cancelled() and self._running.exception() is not None:
            raise RuntimeError("the controllers stopped by themselves") from self._running.exception()

    async def restart(self) -> None:
        """The process dies at once and a new one starts with nothing but the API objects."""
        await self.stop()
        self.parts = self._parts()
        self.start()

    async def until(self, holds: Callable[[], Any], within: float = 900.0) -> None:
        """Let time pass until something holds."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within
        while not holds():
            assert loop.time() < deadline, f"not within {within} s; {self}"
            await asyncio.sleep(0.5)

    @property
    def pods(self):
        return self.world.values(POD)

    @property
    def nodes(self):
        return self.world.values(NODE)

    @property
    def claims(self):
        return self.world.values(NODE_CLAIM)

    @property
    def types(self):
        return Counter(node.metadata.labels.get(INSTANCE_TYPE, "?") for node in self.nodes)

    def pool(self, name="default"):
        return next(pool for pool in self.world.values(NODE_POOL) if pool.name == name)

    def events(self, reason):
        return [event for event in self.world.values(EVENT) if event.reason == reason]

    def running(self, number: int) -> bool:
        ready = [pod for pod in self.pods if pod.status.phase == "Running" and pod.ready and not pod.deleting]
        return len(ready) == number == len(self.pods)

    def settled(self) -> bool:
        """Every claim has one initialised node, every managed node one claim, nothing is on its way out."""
        owned = {claim.provider_id for claim in self.claims}
        return (
            len(owned) == len(self.claims) == len(self.nodes)
            and owned == {node.provider_id for node in self.nodes}
            and all(claim.has("Ready") and not claim.deleting for claim in self.claims)
            and all(TERMINATION_FINALIZER in node.metadata.finalizers for node in self.nodes)
        )

    def __str__(self) -> str:
        phases = Counter(pod.status.phase for pod in self.pods)
        conditions = [
            (claim.name, [(c.type, c.status, c.reason) for c in claim.status.conditions]) for claim in self.claims
        ]
        return f"pods {dict(phases)}, nodes {[node.name for node in self.nodes]}, claims {conditions}"


def live(story, *manifests, options=None, settings=GENERIC, interference=None, validate=admit, compute=None):
    """Live through a story and return what it returns."""

    async def main():
        world = World(options or WorldOptions(), validate=validate, interference=interference)
        async with world:
            life = Life(world, settings, compute)
            for manifest in manifests:
                world.apply(manifest)
            life.start()
            try:
                return await story(life)
            finally:
                await life.stop()

    return run(main(), limit=40 * 24 * 3600.0)


def seeded(seed: int, **fields: Any) -> WorldOptions:
    return replace(WorldOptions(), seed=seed, **fields)


ACTING = replace(GENERIC, disruption="on")
FREELY = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}
ON_DEMAND = [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]


def pool(**disruption):
    return node_pool(template={"requirements": ON_DEMAND}, disruption={**FREELY, **disruption})


def clean(life):
    """No record, taint or condition of a disruption is left on anything that stays."""
    return not any(RECORD_ANNOTATION in claim.metadata.annotations for claim in life.claims) and not any(
        taint.key.startswith("karpenter.sh/disrupt") for node in life.nodes for taint in node.spec.taints
    )


def cost(life):
    prices = {
        (each.name, o.zone, o.capacity_type): o.price
        for each in life.parts.provider.market.availability.catalog
        for o in each.offerings
    }
    keys = ("node.kubernetes.io/instance-type", "topology.kubernetes.io/zone", "karpenter.sh/capacity-type")
    return sum(prices[tuple(node.metadata.labels[key] for key in keys)] for node in life.nodes)
