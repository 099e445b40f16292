"""What AWS is asked: calls for each node launched, and in an idle hour, on clusters of different sizes.

`python bench/aws_calls.py` launches nodes on moto behind the tests' proxy, over HTTP, lets an hour pass on a clock set
by hand, with everything the controllers ask in it, and prints the calls by operation. The catalogue and the prices of a
region are asked for twice a day besides, a page each; they depend on the region, not on the cluster.
"""

import asyncio
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from cloud.aws.account import opened
from cloud.aws.claims import ON_DEMAND, asked_for, launched_as
from cloud.aws.proxy import json_reply
from cloud.aws.server import moto_server
from dovetail.cloud.aws.interruption.sqs import Polling, SqsQueue
from dovetail.cloud.aws.interruption.status_checks import StatusChecks

SIZES = (1, 10, 100)
LISTS = 2  # every two minutes: claims against instances, and instances against claims
MARKED = 5  # minutes between two looks at a claim's drift
POLLS = 3  # a minute: a question to an empty queue stands for twenty seconds


async def launch(account: Any, nodes: int) -> tuple[list[Any], Counter[str]]:
    """Launch so many at once; the claims, and what was asked."""
    await account.create(account.node_class())
    await account.kept()
    asked = [await asked_for(account, ON_DEMAND) for _ in range(nodes)]
    account.proxy.calls.clear()
    made = await asyncio.gather(*(account.provider.launch(each) for each in asked))
    return [launched_as(*pair) for pair in zip(asked, made, strict=True)], Counter(account.proxy.calls)


async def idle_hour(account: Any, claims: list[Any]) -> Counter[str]:
    """An hour in which nothing happens: classes are looked after, lists compared, drift judged, warnings heard."""
    await account.aws.call("sqs", "create_queue", QueueName=account.name)
    checks = StatusChecks(account.parts.aws, account.clock, poll_seconds=0.0)
    queue = SqsQueue(account.parts.aws, account.name, polling=Polling(wait=0))
    account.proxy.calls.clear()
    for minute in range(60):
        account.clock.pass_(minutes=1)
        await account.kept(claims)
        await checks.receive()
        for _ in range(POLLS):
            await queue.receive()
        if minute % 2 == 0:
            for _ in range(LISTS):
                await account.provider.list()
        if minute % MARKED == 0:
            await asyncio.gather(*(account.provider.drift(claim) for claim in claims))
        await account.parts.templates.delete_unused()
    return Counter(account.proxy.calls)


async def end(account: Any, claims: list[Any]) -> Counter[str]:
    """Terminate all of them, and ask until they are gone."""
    account.proxy.calls.clear()
    for _ in range(2):
        await asyncio.gather(*(account.provider.terminate(claim) for claim in claims), return_exceptions=True)
    return Counter(account.proxy.calls)


async def measure(moto: str, patch: pytest.MonkeyPatch, nodes: int) -> dict[str, Counter[str]]:
    """Launch, idle and end for one size."""
    async with opened(moto, patch, disable_dry_run=False, enable_zonal_shift=True) as account:
        arn = (await account.parts.resolvers.cluster.facts()).arn
        account.proxy.on(
            f"GET /managedresources/{arn}", lambda _: json_reply({"appliedWeights": {}, "zonalShifts": []})
        )
        claims, launched = await launch(account, nodes)
        idle = await idle_hour(account, claims)
        return {"launch": launched, "idle hour": idle, "end": await end(account, claims)}


def told(calls: Counter[str]) -> str:
    """By operation, the most frequent first."""
    named: Counter[str] = Counter()
    for operation, count in calls.items():
        named[re.sub(r"^GET /(\w+).*", r"GET \1", operation)] += count
    return ", ".join(f"{name} {count}" for name, count in named.most_common())


def main() -> None:
    """Measure and print."""
    with moto_server() as moto, pytest.MonkeyPatch.context() as patch:
        for nodes in SIZES:
            for what, calls in asyncio.run(measure(moto, patch, nodes)).items():
                each = f" ({calls.total() / nodes:.2f} a node)" if what != "idle hour" else ""
                print(f"{nodes:4} nodes, {what}: {calls.total()} calls{each}: {told(calls)}")


if __name__ == "__main__":
    main()
