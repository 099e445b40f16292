"""Consolidation looks twice, fifteen seconds apart, and what waits for that waits together."""

from datetime import timedelta

from dovetail.model.command import read_record
from dovetail.model.kinds import NODE_CLAIM
from dovetail.ports.errors import Conflict
from stories import ACTING, FREELY, ON_DEMAND, clean, deployment, live, node_class, node_pool

ONE_TYPE = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["s-4x-amd64-linux"]}
POOL = node_pool(template={"requirements": [*ON_DEMAND, ONE_TYPE]}, disruption=FREELY)
FULL = node_pool("full", template={"requirements": [*ON_DEMAND, ONE_TYPE]}, disruption=FREELY, limits={"nodes": "1"})


def pinned():
    """Comes first in every set of nodes, and has no other place: no set works, single nodes do."""
    manifest = deployment("pinned", 1, nodeSelector={"karpenter.sh/nodepool": "full"})
    cheap = {"controller.kubernetes.io/pod-deletion-cost": "-100000000"}
    manifest["spec"]["template"]["metadata"]["annotations"] = cheap
    return manifest


DEFAULT = {"karpenter.sh/nodepool": "default"}
SMALL = deployment("small", 8, nodeSelector=DEFAULT)


def large(replicas):
    """One a node, and a small one beside it."""
    return deployment("large", replicas, cpu="2", nodeSelector=DEFAULT)


async def half_empty(life):
    """Eight nodes with a small pod each, three of which can take them all; and the one that stays."""
    await life.until(lambda: life.running(9) and life.settled())
    life.world.apply(SMALL)
    await life.until(lambda: life.running(17) and life.settled())
    assert len(life.nodes) == 9
    life.world.apply(large(0))


def commands_of(life):
    """Every command that was written on a claim, and when it was started."""
    found = {}

    def hear(step):
        claim = step.after.value(NODE_CLAIM) if step.after.resource[1] == "NodeClaim" else None
        record = read_record(claim) if claim is not None else None
        if record is not None:
            found.setdefault(record.id, record)

    life.world.store.listen_to_all(hear)
    return found


def test_single_nodes_that_can_go_wait_together_and_go_together():
    async def story(life):
        commands = commands_of(life)
        await half_empty(life)
        await life.until(lambda: life.running(9) and life.settled() and clean(life) and len(life.nodes) == 4)
        singles = sorted(each.started_at for each in commands.values() if each.method == "single-node")
        return len(singles), singles[-1] - singles[0]

    number, apart = live(story, node_class(), POOL, FULL, pinned(), large(8), settings=ACTING)
    assert number == 5
    assert apart < timedelta(seconds=15)


class Conflicts:
    """The next patch of a NodeClaim meets somebody else's."""

    def __init__(self, times):
        self.times = times

    async def before(self, call):
        if self.times and (call.operation, call.kind) == ("patch", "NodeClaim"):
            self.times -= 1
            raise Conflict("the object has been modified")

    async def after(self, call):
        pass


def test_a_claim_that_changed_as_a_command_is_written_on_it_is_read_again(caplog):
    async def story(life):
        queue = life.parts.manager.disruption_queue
        write = queue._write_record

        async def meeting(claim, record):
            life.world.interference = life.world.interference or Conflicts(1)
            return await write(claim, record)

        queue._write_record = meeting
        await half_empty(life)
        await life.until(lambda: len(life.nodes) == 4 and life.settled() and clean(life))
        return life.world.interference.times

    assert live(story, node_class(), POOL, FULL, pinned(), large(8), settings=ACTING) == 0
    assert not {"round failed", "rolling back"} & {each.getMessage() for each in caplog.records}
