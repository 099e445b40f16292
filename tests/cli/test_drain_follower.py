"""Following a drain: reports on change, and ends when Node and NodeClaim are gone."""

from dovetail.cli.drain_follower import DrainingNode, follow
from dovetail.cli.view.drain import blocked_pods, summary
from dovetail.ports.errors import Unavailable
from dovetail.sim.kubernetes.kinds import NODE_CLAIM
from stories import deployment, live, node_class, node_pool

QUIET = {"consolidateAfter": "Never"}


class Flaky:
    """Every third look fails: the API server is away for a moment."""

    def __init__(self):
        self.calls = 0

    async def before(self, call):
        self.calls += 1
        if call.operation == "get" and self.calls % 3 == 0:
            raise Unavailable("away")

    async def after(self, _call):
        return


def test_what_blocks_a_drain_is_reported_until_it_ends():
    async def story(life):
        await life.until(lambda: life.running(2) and life.settled())
        node, claim = life.nodes[0], life.claims[0]
        life.world.interference = Flaky()
        life.world.api.delete(NODE_CLAIM, claim.key)
        views = []
        await follow(life.world, life.world.clock, DrainingNode(node, claim), views.append)
        assert node.metadata.uid not in {each.metadata.uid for each in life.nodes}
        assert claim.metadata.uid not in {each.metadata.uid for each in life.claims}
        return views

    manifest = deployment(replicas=2)
    manifest["spec"]["template"]["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "10m"}
    views = live(story, node_class(), node_pool(disruption=QUIET), manifest)
    first = views[0]
    assert summary(first).startswith("slow, all obstacles are temporary; 2 pods left (2 protected)")
    assert len(list(blocked_pods(first))) == 2
    assert all("protected by karpenter.sh/do-not-disrupt, since" in line for line in blocked_pods(first))
    assert 550 < (views[-1].at - first.at).total_seconds() < 620
    assert {each.state for each in views[-1].waiting} <= {"stopping"}
