"""Traces of passes and decisions, as a collector receives them: spans, parents, links and attributes."""

import asyncio
import logging
from contextlib import contextmanager
from dataclasses import replace

import pytest

from dovetail.controllers.ledger_entries import launch_id, removal_id
from dovetail.model.command import read_record
from dovetail.model.kinds import NODE_CLAIM, NODE_POOL
from dovetail.model.kube_object import Key
from dovetail.observe.otlp_tracer import OtlpTracer, otlp_exporter
from dovetail.ports.cluster import Patch
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import World, WorldOptions
from dovetail.wiring.assembly import Telemetry, assemble
from dovetail.wiring.embedded import admit
from otlp_receiver import otlp_receiver
from stories import ACTING, Life, clean, deployment, live, node_class, pool

RELABELED = Patch({"spec": {"template": {"metadata": {"labels": {"team": "a"}}}}})


class TracedLife(Life):
    """A life whose controllers send traces; each start of the controllers is a new process."""

    def __init__(self, world, url, settings):
        self.url = url
        self.tracer = None
        super().__init__(world, settings)

    def _parts(self):
        if self.tracer is not None:
            self.tracer.close(30)
        self.tracer = OtlpTracer(otlp_exporter(f"{self.url}/v1/traces"), self.world.clock)
        return assemble(self.world, self.world.clock, self.settings, Telemetry(tracer=self.tracer))


def traced(story, *manifests, settings=ACTING):
    """What the collector received of a story."""

    async def main(url):
        async with World(WorldOptions(), validate=admit) as world:
            life = TracedLife(world, url, settings)
            for manifest in manifests:
                world.apply(manifest)
            life.start()
            try:
                await story(life)
            finally:
                await life.stop()
                life.tracer.close(30)

    with otlp_receiver() as received:
        run(main(received.url), limit=10 * 24 * 3600.0)
    assert len({each.span_id for each in received.spans}) == len(received.spans)
    return received


def test_a_provisioning_pass_has_its_steps_and_links_to_the_launches():
    claims = []

    async def story(life):
        await life.until(lambda: life.running(5) and life.settled())
        claims.extend(life.claims)

    received = traced(story, node_class(), pool(), deployment(replicas=5))
    (claim,) = claims
    (launching,) = [each for each in received.named("provisioning pass") if each.attributes["dovetail.launches"]]
    assert launching.parent_id == ""
    assert received.tree(launching) == {"provisioning pass": ["snapshot", "schedule pods", "create nodeclaim"]}
    assert launching.attributes["dovetail.pods"] == 5
    assert launching.attributes["dovetail.nodepools"] == ["default"]
    launch = received.one("nodeclaim launch")
    assert launch.trace_id.startswith(launch_id(claim))
    assert received.one("create nodeclaim").links == ((launch.trace_id, launch.span_id),)
    assert received.tree(launch) == {"nodeclaim launch": ["launch instance", "register node", "initialize node"]}
    assert launch.attributes["dovetail.nodeclaim"] == claim.name
    assert launch.attributes["dovetail.node"] == claim.status.node_name
    assert launch.attributes["dovetail.outcome"] == "done"
    assert all(each.began <= each.ended for each in received.spans)


async def drift(life):
    """Change the template and wait until a command begins."""
    await life.until(lambda: life.running(3) and life.settled())
    await life.world.patch(NODE_POOL, Key("", "default"), RELABELED)
    await life.until(lambda: not clean(life), within=300)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_command_is_one_trace_with_its_steps_also_after_a_restart(restarted):
    removed = []

    async def story(life):
        await drift(life)
        (record,) = {read_record(claim) for claim in life.claims} - {None}
        (old,) = [claim for claim in life.claims if read_record(claim)]
        removed.extend([record.id, old])
        if restarted:
            await life.restart()
        await life.until(lambda: life.running(3) and life.settled() and clean(life))
        assert old.name not in [claim.name for claim in life.claims]

    received = traced(story, node_class(), pool(consolidateAfter="Never"), deployment(replicas=3))
    command, old = removed
    root = received.one("disruption command")
    assert root.trace_id.startswith(command)
    assert root.parent_id == ""
    assert root.attributes["dovetail.reason"] == "Drifted"
    assert root.attributes["dovetail.nodes"] == [old.status.node_name]
    assert root.attributes["dovetail.outcome"] == "done"
    assert root.error == ""
    (tree,) = received.tree(root).values()
    steps = [each if isinstance(each, str) else next(iter(each)) for each in tree]
    lone = {each for each in steps if each != "check candidates"}
    assert {"record command", "mark candidates", "commit", "delete candidates", "node termination"} <= lone
    assert {"nodeclaim launch": ["launch instance", "register node", "initialize node"]} in tree or restarted
    termination = next(each["node termination"] for each in tree if "node termination" in each)
    assert termination == ["drain", "detach volumes", "terminate instance"]
    removal = received.one("node termination")
    assert removal.attributes["dovetail.reason"] == "Drifted"
    assert removal.attributes["dovetail.node"] == old.status.node_name
    start = received.one("start command")
    assert start.links == ((root.trace_id, root.span_id),)
    assert start.attributes["dovetail.pods"] == 3


def test_a_disruption_pass_has_its_snapshot_candidates_methods_and_validation():
    async def story(life):
        await life.until(lambda: life.running(5) and life.settled())
        life.world.apply(deployment(replicas=0))
        await life.until(lambda: not life.nodes and not life.claims)

    received = traced(story, node_class(), pool(), deployment(replicas=5))
    start = received.one("start command")
    (acting,) = [each for each in received.named("disruption pass") if received.children(each).count(start)]
    (children,) = received.tree(acting).values()
    assert children[:2] == ["snapshot", "candidates"]
    assert children[-2:] == ["validation", "start command"]
    assert {"method expiration", "method drift", "method emptiness", "method multi-node", "validation delay"} <= {
        *children
    }
    assert acting.attributes["dovetail.outcome"] == "started"
    assert acting.attributes["dovetail.commands"] == 1
    assert acting.attributes["dovetail.reason"] == "Empty"
    below = {each.name: each.attributes for each in received.children(acting)}
    assert below["method emptiness"]["dovetail.commands"] == 1
    assert below["method drift"]["dovetail.refused"] == 1
    assert sum(count for name, count in below["method drift"].items() if name.startswith("dovetail.refusals.")) == 1
    assert below["validation"]["dovetail.outcome"] == "valid"
    (delay,) = [each for each in received.children(acting) if each.name == "validation delay"]
    assert delay.ended - delay.began == 15 * 10**9


def test_a_command_that_is_rolled_back_has_failed_and_says_why():
    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        life.world.apply(node_class(nodeRegistrationDelay="5h"))
        await drift(life)
        await life.until(lambda: clean(life), within=1500)

    received = traced(story, node_class(), pool(consolidateAfter="Never"), deployment(replicas=3))
    root = received.named("disruption command")[0]
    assert root.attributes["dovetail.outcome"] == "rolled back"
    assert root.error
    assert "unmark candidates" in [each.name for each in received.children(root)]
    failed = [each for each in received.named("nodeclaim launch") if each.error]
    assert [each.error for each in failed] == ["deleted before it was initialized: rolled_back"]
    assert {each.trace_id for each in failed} <= {each.trace_id for each in received.named("disruption command")}


def test_a_node_that_a_user_deletes_has_a_trace_of_its_own():
    claims = []

    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        claims.extend(life.claims)
        await life.world.delete(NODE_CLAIM, claims[0].key)
        await life.until(lambda: claims[0].name not in [each.name for each in life.claims])

    received = traced(story, node_class(), pool(), deployment(replicas=3))
    removal = received.one("node termination")
    assert removal.trace_id.startswith(removal_id(claims[0]))
    assert removal.parent_id == ""
    assert removal.attributes["dovetail.reason"] == "Manual"
    assert removal.attributes["dovetail.nodepool"] == "default"


def test_a_dry_run_has_passes():
    async def story(_life):
        await asyncio.sleep(60)

    received = traced(
        story, node_class(), pool(), deployment(replicas=3), settings=replace(ACTING, dry_run=True, disruption="off")
    )
    assert received.named("dry run pass")[-1].attributes["dovetail.launches"] == 1
    assert {each.name for each in received.spans} == {"dry run pass"}


def test_log_lines_of_decisions_have_the_trace_id():
    with log_lines() as lines:

        async def story(life):
            await drift(life)
            await life.until(lambda: life.running(3) and life.settled() and clean(life))

        received = traced(story, node_class(), pool(consolidateAfter="Never"), deployment(replicas=3))
    by_message = {each.getMessage(): each for each in lines if hasattr(each, "trace_id")}
    assert by_message["disrupting nodes"].trace_id == received.one("disruption command").trace_id
    assert by_message["created nodeclaim"].trace_id in {each.trace_id for each in received.named("nodeclaim launch")}


def test_without_a_tracer_log_lines_have_no_trace_id():
    with log_lines() as lines:

        async def story(life):
            await life.until(lambda: life.running(3) and life.settled())

        live(story, node_class(), pool(), deployment(replicas=3), settings=ACTING)
    assert [each for each in lines if each.getMessage() == "created nodeclaim"]
    assert not [each for each in lines if hasattr(each, "trace_id")]


@contextmanager
def log_lines():
    """What the controllers log."""
    lines = []

    class Collect(logging.Handler):
        def emit(self, record):
            lines.append(record)

    logger, handler = logging.getLogger("dovetail"), Collect()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
