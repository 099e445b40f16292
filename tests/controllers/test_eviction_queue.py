"""What becomes of each answer of the eviction API, and how often it is asked."""

import asyncio
from itertools import pairwise

import pytest

from dovetail.model.kube_object import Key
from dovetail.ports.errors import Conflict, Denied, NotFound, OutcomeUnknown, Throttled, Unavailable
from dovetail.sim.kubernetes.kinds import NODE, PDB
from leaving import QUIET, Diary, nothing_left, seconds
from stories import budget, deployment, live, node_class, node_pool


class Answers:
    """Gives the first evictions these answers, and remembers when each was asked."""

    def __init__(self, world, *answers, after_effect=False):
        self._world = world
        self._answers = list(answers)
        self._after_effect = after_effect
        self.asked_at = []

    async def before(self, call):
        if call.operation == "evict":
            self.asked_at.append(self._world.clock.now())
            if self._answers and not self._after_effect:
                raise self._answers.pop(0)

    async def after(self, call):
        if call.operation == "evict" and self._answers and self._after_effect:
            raise self._answers.pop(0)


def counted(life):
    """The requests by code, as /metrics shows them."""
    text = life.parts.metrics.render()
    text = text.decode() if isinstance(text, bytes) else text
    lines = [line for line in text.splitlines() if line.startswith("karpenter_pods_eviction_requests_total{")]
    return {line.split('"')[1]: float(line.split()[-1]) for line in lines}


def drained(*answers, replicas=1, **terms):
    async def story(life):
        await life.until(lambda: life.running(replicas) and life.settled())
        node, claim = life.nodes[0], life.claims[0]
        seen = life.world.interference = Answers(life.world, *answers, **terms)
        life.world.api.delete(NODE, node.key)
        await life.until(lambda: nothing_left(life, [node], [claim]), within=120)
        pauses = [seconds(later - earlier) for earlier, later in pairwise(seen.asked_at)]
        return pauses, counted(life)

    pool = node_pool(disruption=QUIET)
    return live(story, node_class(), pool, deployment(replicas=replicas))


def test_an_accepted_eviction_is_asked_once():
    pauses, codes = drained()
    assert pauses == []
    assert codes == {"200": 1}


@pytest.mark.parametrize(
    ("answer", "code"), [(Denied("no"), "403"), (Throttled("slow", 1.0), "429"), (Unavailable("down"), None)]
)
def test_a_failure_is_tried_again_later_and_later(answer, code):
    pauses, codes = drained(answer, answer, answer)
    assert [round(pause, 1) for pause in pauses] == [0.1, 0.2, 0.4]
    assert codes == {"200": 1, **({code: 3} if code else {})}


@pytest.mark.parametrize(("answer", "code"), [(NotFound("gone"), "404"), (Conflict("another"), "409")])
def test_a_pod_that_is_gone_or_another_by_now_is_left_to_the_drain_which_looks_again(answer, code):
    pauses, codes = drained(answer)
    assert codes == {"200": 1, code: 1}
    assert len(pauses) == 1


def test_an_eviction_without_answer_that_took_effect_is_not_repeated_once_the_pod_is_seen_to_stop():
    pauses, _ = drained(OutcomeUnknown("no answer in time"), after_effect=True)
    assert len(pauses) <= 1


def test_the_pauses_at_a_closed_budget_double_from_a_tenth_of_a_second_to_ten_seconds():
    async def story(life):
        await life.until(lambda: life.running(1) and life.settled())
        seen = life.world.interference = Answers(life.world)
        life.world.api.delete(NODE, life.nodes[0].key)
        await asyncio.sleep(60)
        asked = seen.asked_at
        return [seconds(later - earlier) for earlier, later in pairwise(asked)], counted(life)

    budgeted = (deployment(replicas=1), budget(maxUnavailable=0))
    pauses, codes = live(story, node_class(), node_pool(disruption=QUIET), *budgeted)
    assert [round(pause, 1) for pause in pauses[:9]] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]
    assert codes == {"429": len(pauses) + 1}


def test_a_budget_that_is_taken_away_lets_its_pods_go_at_once():
    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        diary, node = Diary(life.world), life.nodes[0]
        uids = [pod.metadata.uid for pod in life.pods]
        life.world.api.delete(NODE, node.key)
        await asyncio.sleep(120)
        lifted_at = life.world.clock.now()
        life.world.api.delete(PDB, Key("default", "web"))
        await asyncio.sleep(1)
        return [seconds(diary.deleted_at(uid) - lifted_at) for uid in uids]

    budgeted = (deployment(replicas=3), budget(maxUnavailable=0))
    assert max(live(story, node_class(), node_pool(disruption=QUIET), *budgeted)) < 0.5
