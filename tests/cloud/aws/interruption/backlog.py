"""A full interruption queue and the controller that empties it, shared by tests and benchmarks."""

import asyncio
import random
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass

from cloud.aws.account import NOON
from cloud.aws.interruption.events import change, health, reservation, spot
from dovetail.cloud.aws.interruption.sqs import Polling, SqsQueue
from dovetail.controllers.cluster_state import ClusterState
from dovetail.controllers.context import ControllerContext, ProviderPorts
from dovetail.controllers.interruption import InterruptionController
from dovetail.model.kinds import NODE_CLAIM
from dovetail.model.kube_object import ObjectMeta
from dovetail.model.nodeclaim import NodeClaim, NodeClaimSpec
from dovetail.model.nodepool import NodeClassRef
from dovetail.observe.metrics import PrometheusMetrics
from dovetail.ports.cluster import Patch
from dovetail.settings import Settings

REF = NodeClassRef(group="karpenter.k8s.aws", kind="EC2NodeClass", name="default")
DEPTH = 150
"""Maximum of queued messages: moto searches all of them for every request."""
JUNK = ("not json", "{", "[1, 2]", '{"version": "0"}', spot(7), spot("somewhere"))


class Quiet:
    """Publishes nothing."""

    def publish(self, notice):
        """Ignored."""


def instance(number):
    return f"i-{number:017x}"


def claim(number):
    return NodeClaim(
        metadata=ObjectMeta(name=f"claim-{number}"),
        spec=NodeClaimSpec(node_class_ref=REF),
    )


async def launched(world, number):
    """A claim in the world, with an instance."""
    made = await world.create(NODE_CLAIM, claim(number))
    told = {"status": {"providerID": f"aws:///us-east-1a/{instance(number)}"}}
    await world.patch(NODE_CLAIM, made.key, Patch(told, subresource="status"))


def messages(total, seed=7):
    """`total` messages about `total * 9 / 10` instances: a twentieth is junk, a twentieth comes twice."""
    chance = random.Random(seed)  # noqa: S311 - reproducible, not secret
    wanted, twentieth = total * 9 // 10, total // 20
    makers = (spot, reservation, health, lambda each: change(each, "stopping"))
    warnings = [chance.choice(makers)(instance(number)) for number in range(wanted)]
    bodies = warnings + chance.sample(warnings, twentieth) + [chance.choice(JUNK) for _ in range(twentieth)]
    chance.shuffle(bodies)
    return bodies, wanted, twentieth


@dataclass
class Backlog:
    """One queue of an account."""

    account: object
    url: str
    name: str

    async def send(self, *bodies):
        for start in range(0, len(bodies), 10):
            some = bodies[start : start + 10]
            entries = [{"Id": str(number), "MessageBody": body} for number, body in enumerate(some)]
            await self.account.aws.call("sqs", "send_message_batch", QueueUrl=self.url, Entries=entries)

    async def waiting(self):
        """How many messages there are, received ones included."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        answer = await self.account.aws.call("sqs", "get_queue_attributes", QueueUrl=self.url, AttributeNames=names)
        return sum(int(answer["Attributes"][name]) for name in names)

    async def down_to(self, number):
        while await self.waiting() > number:  # noqa: ASYNC110 - only asking tells
            await asyncio.sleep(0.05)


async def new_backlog(account):
    made = await account.aws.call("sqs", "create_queue", QueueName=account.name)
    return Backlog(account, made["QueueUrl"], account.name)


@asynccontextmanager
async def handling(account, metrics, polling):
    """The interruption controller on the account's queue, with the claims of the world."""
    state = ClusterState(account.world)
    source = SqsQueue(account.parts.aws, account.name, metrics, polling)
    provider = ProviderPorts(cloud=account.provider, interruptions=(source,))
    provider.in_use.set()
    context = ControllerContext(
        cluster=account.world,
        cloud=account.provider,
        clock=account.clock,
        recorder=Quiet(),
        metrics=metrics,
        providers=(provider,),
        state=state,
        settings=Settings(provider="aws", cluster_name=account.name),
    )
    loops = [InterruptionController(context).run(), *(informer.run() for informer in (*state.informers, state.switch))]
    tasks = [asyncio.create_task(loop) for loop in loops]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def work_off(account, total, within):
    """Send `total` messages while they are handled. The seconds it took; fails if anything is lost."""
    bodies, wanted, twentieth = messages(total)
    await asyncio.gather(*(launched(account.world, number) for number in range(wanted + 1)))  # the last one is spared
    backlog, metrics, begun = await new_backlog(account), PrometheusMetrics(strict=True), time.monotonic()
    account.proxy.refuse("ReceiveMessage", "RequestThrottled", times=2)
    async with asyncio.timeout(within), handling(account, metrics, Polling(wait=1)):
        for start in range(0, len(bodies), 50):
            await backlog.send(*bodies[start : start + 50])
            await backlog.down_to(DEPTH)
        await backlog.down_to(0)
    took = time.monotonic() - begun
    left = {each.name for each in account.world.values(NODE_CLAIM)} - {f"claim-{wanted}"}
    assert not left, f"{len(left)} of {wanted} warnings lost"
    assert len(account.world.values(NODE_CLAIM)) == 1
    set_aside = figure(metrics, "dovetail_interruption_messages_set_aside_total")
    received = figure(metrics, "karpenter_interruption_received_messages_total")
    deleted = figure(metrics, "karpenter_interruption_deleted_messages_total")
    assert set_aside >= twentieth  # what moto gave to two receivers at once is counted twice, as SQS may do it
    assert received >= total
    untold = 10 * account.proxy.lost["DeleteMessageBatch"]  # deleted, perhaps, and nobody was told
    assert deleted + set_aside + untold >= total
    return took


def figure(metrics, name):
    """The sum over all labels."""
    lines = metrics.render().decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith((f"{name} ", f"{name}{{")))


__all__ = ["NOON", "Backlog", "figure", "handling", "messages", "new_backlog", "work_off"]
