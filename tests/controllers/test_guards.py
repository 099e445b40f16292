"""Guards of single controllers that whole stories seldom reach."""

import asyncio
from datetime import timedelta
from types import SimpleNamespace

import msgspec
import pytest

from builders import NOON, claim, node, nodepool, pod
from dovetail.controllers import nodepools
from dovetail.controllers.context import ProviderPorts
from dovetail.controllers.disruption_queue import DisruptionQueue
from dovetail.controllers.eviction_queue import EvictionQueue, EvictionRequest
from dovetail.controllers.garbage_collection import GarbageCollection
from dovetail.controllers.provisioner import Batch
from dovetail.controllers.termination import TerminationController
from dovetail.core.lifecycle.garbage_collection import Holdings
from dovetail.model.command import RECORD_ANNOTATION, CommandRecord, write_record
from dovetail.model.conditions import ConditionVerdict
from dovetail.model.kube_object import Key
from dovetail.model.reason import Reason
from dovetail.ports.errors import Conflict, Unavailable
from dovetail.sim.virtual_loop import run


def silent():
    return SimpleNamespace(listen=lambda _: None, items={})


def test_a_pod_that_is_being_evicted_keeps_the_earlier_of_two_deadlines():
    async def main():
        queue = EvictionQueue(SimpleNamespace(state=SimpleNamespace(pods=silent(), pdbs=silent())))
        for minutes in (10, 5, 20):
            deadline = NOON + timedelta(minutes=minutes)
            queue.add(EvictionRequest(Key("default", "web"), "uid", Key("", "a"), "Drifted", deadline))
        return queue._requests["uid"].deadline

    assert run(main()) == NOON + timedelta(minutes=5)


def test_a_pod_that_was_protected_since_the_drain_sent_it_is_not_evicted():
    evicted = []

    class Cluster:
        async def evict(self, pod):
            evicted.append(pod.name)

    async def attempt(**metadata):
        found = pod(on="a", metadata=metadata)
        pods = SimpleNamespace(listen=lambda _: None, items={found.key: found})
        state = SimpleNamespace(pods=pods, pdbs=silent())
        quiet = SimpleNamespace(count=lambda *_, **__: None, publish=lambda _: None)
        clock = SimpleNamespace(now=lambda: NOON)
        context = SimpleNamespace(state=state, cluster=Cluster(), clock=clock, metrics=quiet, recorder=quiet)
        queue = EvictionQueue(context)
        queue.add(EvictionRequest(found.key, found.metadata.uid, Key("", "a"), "Drifted"))
        await queue.attempt(found.metadata.uid)

    run(attempt(annotations={"karpenter.sh/do-not-disrupt": "true"}))
    assert evicted == []
    run(attempt())
    assert evicted == ["web"]


def test_the_record_of_another_command_is_not_overwritten():
    terms = {"reason": Reason.DRIFTED, "started_at": NOON, "candidates": 1, "replacements": 0, "method": "drift"}
    first, second = CommandRecord(id="first", **terms), CommandRecord(id="second", **terms)
    taken = claim(metadata={"annotations": {RECORD_ANNOTATION: write_record(first)}})
    with pytest.raises(Conflict, match="second"):
        run(DisruptionQueue._put_record(None, taken, second))


def test_two_claims_for_one_instance_are_not_none():
    state = SimpleNamespace(claims_of=lambda _: (claim("one"), claim("two")), claim_of=lambda _: None)
    termination = SimpleNamespace(_context=SimpleNamespace(state=state))
    assert run(TerminationController._has_no_claim(termination, node())) is False


def collecting(cloud, stale=()):
    """A round of garbage collection over a cluster with nothing in it; whether nothing failed."""
    unreadable = SimpleNamespace(instances_known=True, claims=(), nodes=())
    lists = {kind: SimpleNamespace(items={}, unreadable={}) for kind in ("claims", "nodes")}
    state = SimpleNamespace(stale=lambda: stale, unreadable=unreadable, **lists)
    clock = SimpleNamespace(now=lambda: NOON)
    provider = ProviderPorts(cloud=cloud)
    collection = GarbageCollection(SimpleNamespace(state=state, clock=clock), provider)
    return run(collection.collect())


class Cloud:
    """A provider that answers a list with this, or raises it."""

    node_class_labels = frozenset({"example.com/class"})

    def __init__(self, answer):
        self.answer = answer
        self.asked = 0

    async def list(self):
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_a_list_of_instances_that_failed_is_not_an_empty_one():
    assert collecting(Cloud(())) is True
    assert collecting(Cloud(Unavailable("down"))) is False


def test_nothing_is_compared_with_stale_caches():
    cloud = Cloud(())
    assert collecting(cloud, stale=("pods",)) is False
    assert cloud.asked == 0


def test_holdings_of_nothing_are_equal():
    """The comparison above rests on it."""
    assert Holdings((), (), ()) == Holdings((), (), ())


def test_what_triggered_a_batch_triggers_the_next_one_too():
    async def main():
        batch = Batch(idle=1.0, longest=10.0)
        for _ in range(2):
            batch.trigger("pod")
            async with asyncio.timeout(60):
                await batch.gather()

    run(main())


def test_the_validity_of_a_nodepool_is_judged_again_when_its_annotations_change(monkeypatch):
    seen = []
    monkeypatch.setattr(nodepools, "validate_nodepool", lambda pool, *_: seen.append(pool) or ())
    monkeypatch.setattr(nodepools, "judge_validation", lambda *_: ConditionVerdict("ValidationSucceeded"))
    first = nodepool()
    metadata = msgspec.structs.replace(first.metadata, annotations={"dovetail.sh/pause": "nonsense"})
    controller = SimpleNamespace(_validation_by_key={})
    for pool in (first, first, msgspec.structs.replace(first, metadata=metadata)):
        nodepools.NodePoolController._validation_verdict(controller, pool)
    assert len(seen) == 2
