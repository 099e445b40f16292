"""Room that a command bought ahead is for the pods of the nodes it takes: others do not take it from them."""

from stories import ACTING, clean, deployment, live, node_class, node_pool

SMALL = [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["s-4x-amd64-linux"]}]


def small(generation):
    disruption = {"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]}
    labels = {"labels": {"generation": generation}}
    return node_pool(template={"requirements": SMALL}, template_metadata=labels, disruption=disruption)


def test_pods_that_come_while_a_replacement_is_on_its_way_get_room_of_their_own():
    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        (old,) = life.nodes
        life.world.apply(small("second"))
        await life.until(lambda: len(life.claims) == 2, within=60)
        life.world.apply(deployment(name="more", replicas=3))
        quick_reject = 0

        def over():
            nonlocal quick_reject
            quick_reject += any(pod.metadata.labels["app"] == "web" and not pod.node_name for pod in life.pods)
            return life.running(6) and life.settled() and clean(life) and old.name not in map(_name, life.nodes)

        await life.until(over)
        assert quick_reject <= 1  # evicted, and bound a moment later
        assert len(life.nodes) == 2

    machines = node_class(nodeRegistrationDelay="35s")
    live(story, machines, small("first"), deployment(replicas=3), settings=ACTING)


def _name(node):
    return node.name
