"""Stories about AWS with everything alive: the real controllers, a simulated cluster, EC2 as moto plays it, over HTTP.

Time is the hurried loop's. The process is made as `dovetail run --provider aws` makes it.
"""

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime

from cloud.aws.account import opened
from cloud.aws.hurried import hurry
from cloud.aws.nodes import booting
from dovetail.cloud.aws.clients import AwsError
from dovetail.model.labels import INSTANCE_TYPE
from dovetail.settings import Settings
from dovetail.sim.kubernetes.kubelet import KubeletTiming
from dovetail.sim.virtual_loop import VirtualClock
from dovetail.sim.world import World, WorldOptions
from dovetail.wiring.embedded import admit
from stories import Life, node_pool

REF = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
AMD64 = {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}
ON_DEMAND = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
PACE = 12.0
PATIENCE = 20
QUICK = KubeletTiming(node_ready=(0.1, 0.5), pod_start=(0.1, 0.5), pod_stop=(0.1, 0.5))


def ec2_pool(*requirements, **spec):
    """A pool of EC2 instances."""
    return node_pool(template={"nodeClassRef": REF, "requirements": [AMD64, *requirements]}, **spec)


class CloudLife(Life):
    """A running cluster with EC2 instances."""

    def __init__(self, world, settings, account, moto):
        self.account = account
        self.moto = moto
        super().__init__(world, settings)

    async def stop(self):
        self._running.cancel()
        await asyncio.wait([self._running])
        await self.parts.supplier.aclose()
        if not self._running.cancelled() and self._running.exception() is not None:
            raise RuntimeError("the controllers stopped by themselves") from self._running.exception()

    @property
    def proxy(self):
        return self.account.proxy

    @property
    def bought(self):
        """The instance types of the nodes, by age."""
        return [node.metadata.labels[INSTANCE_TYPE] for node in self.nodes]

    async def instances(self):
        """The running instances of the cluster. Retries: the accelerated clock also shortens timeouts of moto."""
        for _ in range(PATIENCE):
            with suppress(AwsError):
                return [each for each in await self.account.parts.instances.list() if not each.terminating]
        raise TimeoutError("moto does not answer")


OF_THE_CLUSTER = "of the cluster"


def alive(story, moto, monkeypatch, *manifests, deaf=(), **settings):
    """Run a scenario and return its result. The node class selects the resources of the account.

    `interruption_queue=OF_THE_CLUSTER` reads the queue with the name of the cluster, as Karpenter's policy permits.
    """

    async def main():
        async with opened(moto, monkeypatch) as account, _born(account, moto, settings) as life:  # noqa: SIM117 - too long
            async with booting(moto, life.world, account.name, deaf):
                for manifest in (account.node_class(), *manifests):
                    life.world.apply(manifest)
                life.start()
                try:
                    return await story(life)
                finally:
                    await life.stop()

    return hurry(main())


@asynccontextmanager
async def _born(account, moto, settings):
    clock = VirtualClock(asyncio.get_running_loop(), datetime.now(UTC))
    account.proxy.fleets.clock = clock
    asyncio.get_running_loop().hurry(PACE)
    if settings.get("interruption_queue") == OF_THE_CLUSTER:
        settings = settings | {"interruption_queue": account.name}
    wanted = replace(Settings(provider="aws", cluster_name=account.name, disruption="on"), **settings)
    async with World(WorldOptions(kubelet=QUICK), clock=clock, validate=admit) as world:
        yield CloudLife(world, wanted, account, moto)
