"""The contract of the `CloudProvider` port: every case, for every provider.

A provider is made testable by filling in a `Providers`: a cluster with one node class that is ready, the provider on
it, and a way to make the cloud run short. What no case proves, no controller may rely on.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec

from dovetail.model.catalog import Instance
from dovetail.model.kinds import NODE_CLAIM
from dovetail.model.kube_object import ObjectMeta
from dovetail.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, NODEPOOL, WELL_KNOWN, ZONE
from dovetail.model.nodeclaim import ClaimResources, NodeClaim, NodeClaimSpec, NodeClaimStatus
from dovetail.model.nodepool import (
    NodeClaimTemplate,
    NodeClaimTemplateSpec,
    NodeClassRef,
    NodePool,
    NodePoolSpec,
    NodeRequirement,
)
from dovetail.model.resources import Quantity, fits
from dovetail.ports.cloud import CloudProvider
from dovetail.ports.cluster import Cluster, Deletion
from dovetail.ports.errors import CloudError, InstanceNotFound, InsufficientCapacity, OutcomeUnknown, WorldError


class Supply(ABC):
    """One case's view of a provider."""

    cluster: Cluster
    provider: CloudProvider
    ref: NodeClassRef  # of a class that exists and is ready

    def __init__(self, cluster: Cluster, provider: CloudProvider, ref: NodeClassRef) -> None:
        self.cluster = cluster
        self.provider = provider
        self.ref = ref
        self._claims = 0

    @abstractmethod
    async def later(self) -> "CloudProvider":
        """The provider of a process that starts now and knows nothing but what is written."""

    @abstractmethod
    async def remove_class(self) -> None:
        """Take the node class away."""

    @abstractmethod
    async def lose_answers(self, launches: int) -> None:
        """The next launches take effect, and their answers are lost."""

    @abstractmethod
    async def remove_nodes(self) -> None:
        """Delete the Node of every instance, where instances exist apart from Nodes."""

    async def pool(self) -> NodePool:
        """A pool of the class."""
        template = NodeClaimTemplate(spec=NodeClaimTemplateSpec(node_class_ref=self.ref))
        return NodePool(metadata=ObjectMeta(name="pool"), spec=NodePoolSpec(template=template))

    async def ask(self, *requirements: NodeRequirement, cpu: str = "1") -> NodeClaim:
        """A claim as the API server holds it."""
        self._claims += 1
        spec = NodeClaimSpec(
            requirements=requirements,
            node_class_ref=self.ref,
            resources=ClaimResources(requests={"cpu": Quantity.of(cpu)}),
        )
        meta = ObjectMeta(name=f"pool-{self._claims}", labels={NODEPOOL: "pool"})
        return await self.cluster.create(NODE_CLAIM, NodeClaim(metadata=meta, spec=spec))

    async def launched(self, *requirements: NodeRequirement) -> tuple[NodeClaim, Instance]:
        """A claim with its instance written down."""
        claim = await self.ask(*requirements)
        instance = await self.provider.launch(claim)
        return recorded(claim, instance), instance


class LostAnswers:
    """An `Interference` of the embedded world: some calls take effect, and their answers are lost."""

    def __init__(self, left: int, operation: str, kind: str) -> None:
        self._left = left
        self._lost = operation, kind

    async def before(self, call: Any) -> None:
        """Let it pass."""

    async def after(self, call: Any) -> None:
        """Lose the answer."""
        if (call.operation, call.kind) == self._lost and self._left:
            self._left -= 1
            raise OutcomeUnknown("no answer in time")


def recorded(claim: NodeClaim, instance: Instance) -> NodeClaim:
    """The claim as the lifecycle writes it."""
    metadata = msgspec.structs.replace(
        claim.metadata,
        labels={**instance.labels, **claim.metadata.labels},
        annotations={**claim.metadata.annotations, **instance.annotations},
    )
    status = NodeClaimStatus(provider_id=instance.provider_id, image_id=instance.image_id)
    return msgspec.structs.replace(claim, metadata=metadata, status=status)


def wants(key: str, *values: str) -> NodeRequirement:
    """One requirement."""
    return NodeRequirement(key=key, operator="In", values=values)


async def raises(error: type[Exception], call: Awaitable[Any]) -> Exception:
    """The error that the call ends with."""
    try:
        await call
    except error as raised:
        return raised
    raise AssertionError(f"{error.__name__} was not raised")


async def gone(supply: Supply, claim: NodeClaim) -> None:
    """End the instance, as often as it takes."""
    for _ in range(20):
        try:
            await supply.provider.terminate(claim)
        except InstanceNotFound:
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the instance never went")


async def says_who_it_is_and_which_classes_are_its_own(supply: Supply) -> None:
    provider = supply.provider
    assert provider.name
    assert supply.ref.label in provider.node_class_labels
    assert provider.supports(supply.ref)
    assert not provider.supports(NodeClassRef(group="example.com", kind="Other", name="default"))
    assert all(statement.toleration for statement in provider.repair_statements())


async def knows_its_class_and_not_another(supply: Supply) -> None:
    state = await supply.provider.node_class(supply.ref)
    assert state is not None
    assert state.ready is not None
    assert (state.name, state.deleting, state.ready.status) == (supply.ref.name, False, "True")
    assert await supply.provider.node_class(msgspec.structs.replace(supply.ref, name="nobody")) is None


async def lists_the_whole_catalogue_with_a_price_for_what_can_be_had(supply: Supply) -> None:
    types = await supply.provider.instance_types(await supply.pool())
    assert len({each.name for each in types}) == len(types) > 0
    for each in types:
        assert each.requirements.get(INSTANCE_TYPE).has(each.name)
        places = [(o.zone, o.capacity_type, o.requirements) for o in each.offerings]
        assert len(set(places)) == len(places)
        assert all(o.price > 0 for o in each.offerings if o.available)


async def launches_what_the_claim_asks_for(supply: Supply) -> None:
    claim = await supply.ask(wants(CAPACITY_TYPE, "on-demand"), cpu="3")
    instance = await supply.provider.launch(claim)
    types = {each.name: each for each in await supply.provider.instance_types(await supply.pool())}
    chosen = types[instance.labels[INSTANCE_TYPE]]
    assert instance.labels[CAPACITY_TYPE] == "on-demand"
    assert instance.labels[ZONE]
    assert fits(claim.spec.resources.requests, instance.allocatable)
    assert claim.requirements.compatible(chosen.requirements, WELL_KNOWN | supply.provider.well_known_labels) is None
    assert fits(instance.allocatable, instance.capacity)


async def launches_once_for_one_claim_however_often_it_is_asked(supply: Supply) -> None:
    claim = await supply.ask()
    first = await supply.provider.launch(claim)
    again = await supply.provider.launch(claim)
    heir = await supply.later()
    assert first.provider_id == again.provider_id == (await heir.launch(claim)).provider_id
    assert [each.provider_id for each in await supply.provider.list()] == [first.provider_id]


async def launches_once_although_the_answer_was_lost(supply: Supply) -> None:
    claim = await supply.ask()
    await supply.lose_answers(1)
    with suppress(WorldError):
        await supply.provider.launch(claim)
    heir = await supply.later()
    found = await heir.launch(claim)
    assert [each.provider_id for each in await supply.provider.list()] == [found.provider_id]


async def launches_no_second_instance_for_a_claim_whose_first_was_terminated(supply: Supply) -> None:
    claim, instance = await supply.launched()
    await gone(supply, claim)
    unwritten = msgspec.structs.replace(claim, status=NodeClaimStatus())
    with suppress(CloudError):
        again = await supply.provider.launch(unwritten)
        assert again.provider_id == instance.provider_id


async def launches_apart_for_claims_apart(supply: Supply) -> None:
    claims = [await supply.ask() for _ in range(3)]
    made = await asyncio.gather(*(supply.provider.launch(claim) for claim in claims))
    assert len({each.provider_id for each in made}) == 3


async def refuses_what_cannot_be_had(supply: Supply) -> None:
    await raises(InsufficientCapacity, supply.provider.launch(await supply.ask(cpu="100k")))
    await raises(InsufficientCapacity, supply.provider.launch(await supply.ask(wants(ZONE, "nowhere"))))
    assert await supply.provider.list() == ()


async def avoids_what_it_was_told_to_avoid(supply: Supply) -> None:
    _, instance = await supply.launched(wants(CAPACITY_TYPE, "on-demand"))
    bought = tuple(instance.labels[key] for key in (INSTANCE_TYPE, ZONE, CAPACITY_TYPE))
    supply.provider.avoid(*bought)
    _, other = await supply.launched(wants(CAPACITY_TYPE, "on-demand"))
    assert tuple(other.labels[key] for key in (INSTANCE_TYPE, ZONE, CAPACITY_TYPE)) != bought
    types = await supply.provider.instance_types(await supply.pool())
    marked = [o for each in types if each.name == bought[0] for o in each.offerings if not o.available]
    assert bought[1:] in [(o.zone, o.capacity_type) for o in marked]


async def launches_nothing_without_a_class(supply: Supply) -> None:
    claim = await supply.ask()
    await supply.remove_class()
    await raises(CloudError, supply.provider.launch(claim))
    assert await supply.provider.list() == ()


async def tells_of_an_instance_while_it_is_there(supply: Supply) -> None:
    claim, instance = await supply.launched()
    got = await supply.provider.get(instance.provider_id)
    [listed] = await supply.provider.list()
    for each in (got, listed):
        assert each.provider_id == instance.provider_id == claim.provider_id
        assert not each.terminating
        assert each.launched_at is not None
        assert each.launched_at.tzinfo is not None
        assert each.labels[NODEPOOL] == "pool"
        assert each.labels[INSTANCE_TYPE] == instance.labels[INSTANCE_TYPE]
    assert await supply.provider.drift(claim) == ""


async def ends_an_instance_and_then_does_not_know_it(supply: Supply) -> None:
    claim, instance = await supply.launched()
    _, other = await supply.launched()
    await gone(supply, claim)
    await raises(InstanceNotFound, supply.provider.terminate(claim))
    left = [each.provider_id for each in await supply.provider.list() if not each.terminating]
    assert left == [other.provider_id]
    with suppress(InstanceNotFound):
        assert (await supply.provider.get(instance.provider_id)).terminating


async def ends_an_instance_whose_node_is_gone(supply: Supply) -> None:
    claim, instance = await supply.launched()
    await asyncio.sleep(0.1)
    await supply.remove_nodes()
    assert (await supply.provider.get(instance.provider_id)).provider_id == instance.provider_id
    await gone(supply, claim)
    assert not [each for each in await supply.provider.list() if not each.terminating]


async def lists_what_it_gets_and_gets_what_it_lists(supply: Supply) -> None:
    launched = {(await supply.launched())[1].provider_id for _ in range(3)}
    listed = {each.provider_id: each for each in await supply.provider.list()}
    assert listed.keys() == launched
    for provider_id, each in listed.items():
        got = await supply.provider.get(provider_id)
        assert (got.labels, got.launched_at, got.terminating) == (each.labels, each.launched_at, each.terminating)


async def ends_an_instance_of_which_only_the_id_is_known(supply: Supply) -> None:
    claim, instance = await supply.launched()
    await supply.cluster.delete(NODE_CLAIM, claim.key, Deletion())
    unclaimed = NodeClaim(status=NodeClaimStatus(provider_id=instance.provider_id))
    await gone(supply, unclaimed)
    assert not [each for each in await supply.provider.list() if not each.terminating]


async def does_not_know_what_never_was(supply: Supply) -> None:
    for id_ in ("", "other://node", "aws:///us-east-1a/i-0123456789abcdef0", "kwok://nobody"):
        await raises(InstanceNotFound, supply.provider.get(id_))
        nobody = NodeClaim(metadata=ObjectMeta(name="x", uid="x"), status=NodeClaimStatus(provider_id=id_))
        await raises(InstanceNotFound, supply.provider.terminate(nobody))


Case = Callable[[Supply], Awaitable[None]]
CASES: tuple[Case, ...] = (
    says_who_it_is_and_which_classes_are_its_own,
    knows_its_class_and_not_another,
    lists_the_whole_catalogue_with_a_price_for_what_can_be_had,
    launches_what_the_claim_asks_for,
    launches_once_for_one_claim_however_often_it_is_asked,
    launches_once_although_the_answer_was_lost,
    launches_no_second_instance_for_a_claim_whose_first_was_terminated,
    launches_apart_for_claims_apart,
    refuses_what_cannot_be_had,
    avoids_what_it_was_told_to_avoid,
    launches_nothing_without_a_class,
    tells_of_an_instance_while_it_is_there,
    ends_an_instance_and_then_does_not_know_it,
    ends_an_instance_whose_node_is_gone,
    lists_what_it_gets_and_gets_what_it_lists,
    ends_an_instance_of_which_only_the_id_is_known,
    does_not_know_what_never_was,
)
