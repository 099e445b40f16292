"""Registrations and initializations are counted once per NodeClaim, whatever is repeated on the way."""

import asyncio
import logging
import random
from collections import Counter

import pytest
from prometheus_client.parser import text_string_to_metric_families

from dovetail.ports.errors import Conflict, OutcomeUnknown
from stories import deployment, live, node_class, pool, seeded

NODES = 12


class Repeats:
    """Writes of claims fail often: refused because of another write, or without an answer although they took effect."""

    def __init__(self, seed):
        self.dice = random.Random(seed)  # noqa: S311 - reproducible, not secret

    async def before(self, call):
        if (call.operation, call.kind) == ("patch", "NodeClaim") and self.dice.random() < 0.3:
            raise Conflict("changed")

    async def after(self, call):
        if (call.operation, call.kind) == ("patch", "NodeClaim") and self.dice.random() < 0.2:
            raise OutcomeUnknown("no answer in time")


def nodes_created(life):
    families = text_string_to_metric_families(life.parts.metrics.render().decode())
    samples = (each for family in families for each in family.samples)
    return sum(each.value for each in samples if each.name == "karpenter_nodes_created_total")


def reported(caplog, message):
    return Counter(record.nodeclaim for record in caplog.records if record.message == message)


def one_pod_per_node():
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    return deployment(replicas=NODES, topologySpreadConstraints=[spread])


@pytest.mark.parametrize("delay", [0.0, 5.0])
@pytest.mark.parametrize("seed", range(4))
def test_conflicts_lost_answers_and_late_watches_repeat_no_count(seed, delay, caplog):
    async def story(life):
        await life.until(lambda: life.running(NODES) and life.settled(), within=3600)
        return nodes_created(life), {claim.name for claim in life.claims}

    caplog.set_level(logging.INFO)
    faults, options = Repeats(seed), seeded(seed, watch_delay=delay)
    created, claims = live(story, node_class(), pool(), one_pod_per_node(), interference=faults, options=options)
    assert created == len(claims)
    assert reported(caplog, "registered nodeclaim") == Counter(claims)
    assert reported(caplog, "initialized nodeclaim") == Counter(claims)


@pytest.mark.parametrize("seed", range(3))
def test_a_new_process_counts_only_what_the_last_one_left_undone(seed, caplog):
    async def story(life):
        created, dice = 0.0, random.Random(seed)  # noqa: S311 - reproducible, not secret
        for _ in range(6):
            await asyncio.sleep(dice.uniform(5, 30))
            created += nodes_created(life)
            await life.restart()
        await life.until(lambda: life.running(NODES) and life.settled(), within=3600)
        return created + nodes_created(life), {claim.name for claim in life.claims}

    caplog.set_level(logging.INFO)
    created, claims = live(story, node_class(), pool(), one_pod_per_node(), options=seeded(seed))
    assert created == len(claims)
    assert reported(caplog, "registered nodeclaim") == Counter(claims)
    assert reported(caplog, "initialized nodeclaim") == Counter(claims)
