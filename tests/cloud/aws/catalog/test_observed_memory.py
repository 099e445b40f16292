"""Observed memory of nodes replaces the estimate, for their instance type and image only."""

from cloud.aws.account import parameter
from cloud.aws.claims import REF, claim
from dovetail.model.kinds import NODE
from dovetail.model.kube_object import Condition, Key, ObjectMeta
from dovetail.model.labels import INSTANCE_TYPE
from dovetail.model.node import Node, NodeStatus
from dovetail.model.nodeclaim import NodeClaim, NodeClaimSpec, NodeClaimStatus
from dovetail.model.resources import Quantity

ESTIMATE = Quantity.parse("7577Mi")
M5 = "m5.large"


async def joined(account, number, memory, image=None, registered="True"):
    """A claim whose node registered with that much memory."""
    name = f"node-{number}"
    capacity = {"memory": Quantity.parse(memory)} if memory else {}
    await account.world.create(NODE, Node(metadata=ObjectMeta(name=name), status=NodeStatus(capacity=capacity)))
    return NodeClaim(
        metadata=ObjectMeta(name=f"claim-{number}", uid=f"uid-{number}", labels={INSTANCE_TYPE: M5}),
        spec=NodeClaimSpec(node_class_ref=REF),
        status=NodeClaimStatus(
            node_name=name,
            image_id=image or account.images["x86_64"],
            conditions=(Condition(type="Registered", status=registered),),
        ),
    )


async def told(account, name=M5):
    """Capacity and allocatable memory of an instance type."""
    found = {each.name: each for each in await account.provider.types_of(await account.read())}
    return found[name].capacity["memory"], found[name].allocatable["memory"]


def test_nodes_tell_what_their_type_has_and_the_least_of_them_counts(ready):
    async def story(account):
        before, left = await told(account)
        assert before == ESTIMATE
        first = await joined(account, 1, "7800Mi")
        await account.kept([first])
        now, free = await told(account)
        assert now == Quantity.parse("7800Mi")
        assert free - left == now - before  # what the system keeps is the same
        larger, smaller = await joined(account, 2, "7900Mi"), await joined(account, 3, "7700Mi")
        await account.kept([first, larger])
        assert (await told(account))[0] == Quantity.parse("7800Mi")
        await account.kept([first, larger, smaller])
        assert (await told(account))[0] == Quantity.parse("7700Mi")
        assert (await told(account, "m5.xlarge"))[0] == Quantity.parse("15155Mi")  # others are as they were

    ready(story)


def test_another_image_is_another_matter(ready):
    async def story(account):
        first = await joined(account, 1, "7800Mi")
        await account.kept([first])
        await account.new_image(parameter("x86_64"), "x86_64")
        account.clock.pass_(minutes=6)
        await account.kept([first])
        assert (await told(account))[0] == ESTIMATE

    ready(story)


def test_nodes_without_memory_are_read_again(ready):
    async def story(account):
        early, silent = await joined(account, 1, "7000Mi", registered="Unknown"), await joined(account, 2, "")
        await account.kept([early, silent, claim()])
        assert (await told(account))[0] == ESTIMATE
        gone = await joined(account, 3, "7000Mi")
        await account.world.delete(NODE, Key("", "node-3"))
        await account.kept([gone])
        assert (await told(account))[0] == ESTIMATE

    ready(story)


def test_a_large_cluster_is_learned_little_by_little_and_each_node_once(ready):
    async def story(account):
        claims = [await joined(account, number, f"{8000 - number}Mi") for number in range(25)]
        seen = []
        for _ in range(4):
            await account.kept(claims)
            seen.append((await told(account))[0])
        assert seen == [Quantity.parse(f"{8000 - least}Mi") for least in (9, 19, 24, 24)]

    ready(story)
