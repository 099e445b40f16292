"""Several providers as one: every call reaches the provider of the object's node class, and keeps the contract."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from builders import nodepool
from cloud.kwok.test_contract import REF, KwokSupply, make
from contract.providers import CASES
from contract.suite import title
from dovetail.cloud.router import MOST_CATALOGS, CloudRouter
from dovetail.core.lifecycle.repair import symptoms
from dovetail.core.scheduling.instance_type_table import fitting_types
from dovetail.manifest.catalog_codec import dump_catalogs, load_catalogs
from dovetail.model.catalog import Instance, InstanceType, Offering
from dovetail.model.kinds import KWOK_NODE_CLASS
from dovetail.model.kube_object import Condition, ObjectMeta
from dovetail.model.kwoknodeclass import KWOKNodeClass
from dovetail.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, WELL_KNOWN, ZONE
from dovetail.model.node import Node, NodeStatus
from dovetail.model.nodeclaim import NodeClaim, NodeClaimSpec, NodeClaimStatus
from dovetail.model.nodepool import NodeClassRef
from dovetail.model.repair import ProviderRepairPolicy, policies_without_effect
from dovetail.model.requirements import Requirement, Requirements
from dovetail.model.resources import Quantity
from dovetail.ports.cloud import NodeClassState
from dovetail.ports.errors import CloudError, InstanceNotFound
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import World

TEN = timedelta(minutes=10)


def large(labels):
    offering = Offering(Requirements.from_labels({ZONE: "a", CAPACITY_TYPE: "spot"}), 1.0)
    capacity = {"cpu": Quantity.of("4")}
    return InstanceType(
        "large", Requirements.from_labels({INSTANCE_TYPE: "large", **labels}), (offering,), capacity, {}
    )


class Cloud:
    """A provider of one group, which notes the calls it gets."""

    can_drift = False

    def __init__(self, name, *, fails=False):
        self.name, self.fails = name, fails
        self.label = f"{name}.example/size"
        self.well_known_labels = frozenset({self.label, ZONE})
        self.node_class_labels = frozenset({f"{name}.example/class"})
        self.calls = []
        self.types = (large({self.label: "big"}),)

    def supports(self, ref):
        return (ref.api_group, ref.kind) == (f"{self.name}.example", "Class")

    async def node_class(self, ref):
        self.calls.append("node_class")
        return NodeClassState(name=ref.name, generation=1, deleting=False, ready=None)

    async def instance_types(self, _pool):
        self.calls.append("instance_types")
        return self.types

    async def launch(self, claim):
        self.calls.append(f"launch {claim.name}")
        return Instance(f"{self.name}://1", {}, {}, {}, {})

    async def terminate(self, claim):
        if not claim.provider_id.startswith(f"{self.name}://"):
            raise InstanceNotFound(claim.provider_id)
        self.calls.append(f"terminate {claim.provider_id}")

    async def get(self, provider_id):
        if not provider_id.startswith(f"{self.name}://"):
            raise InstanceNotFound(provider_id)
        if self.fails:
            raise CloudError("no credentials")
        return Instance(provider_id, {}, {}, {}, {})

    async def list(self):
        if self.fails:
            raise CloudError("no credentials")
        return (Instance(f"{self.name}://1", {}, {}, {}, {}),)

    async def drift(self, claim):
        return f"{self.name} {claim.name}"

    def repair_statements(self):
        return (ProviderRepairPolicy(f"{self.name}Broken", "True", TEN),)

    def avoid(self, *offering):
        self.calls.append(f"avoid {' '.join(offering)}")


def ref(name):
    return NodeClassRef(group=f"{name}.example", kind="Class", name="default")


def claim(name, provider_id=""):
    return NodeClaim(
        metadata=ObjectMeta(name=name),
        spec=NodeClaimSpec(node_class_ref=ref(name)),
        status=NodeClaimStatus(provider_id=provider_id),
    )


def pool(name, **spec):
    return nodepool(name, template={"nodeClassRef": {"group": f"{name}.example", "kind": "Class", "name": "x"}}, **spec)


@pytest.fixture
def clouds():
    return Cloud("red"), Cloud("blue", fails=True)


def test_a_call_about_a_claim_reaches_only_the_provider_of_its_class(clouds):
    red, blue = clouds
    router = CloudRouter(clouds)
    assert asyncio.run(router.launch(claim("blue"))).provider_id == "blue://1"
    asyncio.run(router.terminate(claim("blue", "blue://1")))
    assert asyncio.run(router.drift(claim("red"))) == "red red"
    assert asyncio.run(router.node_class(ref("red"))).name == "default"
    assert (red.calls, blue.calls) == (["node_class"], ["launch blue", "terminate blue://1"])


def test_a_class_of_no_provider_is_not_supported(clouds):
    router = CloudRouter(clouds)
    assert router.supports(ref("red"))
    assert not router.supports(ref("green"))
    assert asyncio.run(router.node_class(ref("green"))) is None
    with pytest.raises(
        CloudError, match=r"no provider supports node classes of kind 'Class' in group 'green\.example'"
    ):
        asyncio.run(router.launch(claim("green")))


def test_an_instance_without_a_claim_is_terminated_by_the_provider_that_knows_its_id(clouds):
    unclaimed = NodeClaim(status=NodeClaimStatus(provider_id="blue://7"))
    asyncio.run(CloudRouter(clouds).terminate(unclaimed))
    assert clouds[1].calls == ["terminate blue://7"]
    with pytest.raises(InstanceNotFound):
        asyncio.run(CloudRouter(clouds).terminate(NodeClaim(status=NodeClaimStatus(provider_id="green://7"))))


def test_an_instance_is_gone_only_if_its_own_provider_says_so(clouds):
    router = CloudRouter(clouds)
    assert asyncio.run(router.get("red://1")).provider_id == "red://1"
    with pytest.raises(CloudError, match="no credentials"):
        asyncio.run(router.get("blue://1"))
    with pytest.raises(CloudError, match="no credentials"):
        asyncio.run(router.list())  # a list without the instances of one provider would look as if they were gone


def test_a_pod_that_requires_a_label_of_another_provider_fits_no_instance_type(clouds):
    router = CloudRouter(clouds)
    well_known = WELL_KNOWN | router.well_known_labels
    wanted = Requirements.of([Requirement.of("blue.example/size", "In", ["big"])])
    assert [each.name for each in fitting_types(asyncio.run(router.instance_types(pool("blue"))), wanted, well_known)]
    types = asyncio.run(router.instance_types(pool("red")))
    assert not list(fitting_types(types, wanted, well_known))
    assert types[0].requirements.get("red.example/size").has("big")


def test_unchanged_types_are_the_same_object(clouds):
    router = CloudRouter(clouds)
    before = asyncio.run(router.instance_types(pool("red")))
    assert asyncio.run(router.instance_types(pool("red"))) is before
    clouds[0].types = (replace(clouds[0].types[0], name="other"),)
    assert asyncio.run(router.instance_types(pool("red")))[0].name == "other"


def test_nodepools_with_the_same_types_share_them_and_old_ones_are_dropped(clouds):
    router = CloudRouter(clouds)
    first = asyncio.run(router.instance_types(pool("red")))
    assert asyncio.run(router.instance_types(pool("red", weight=7))) is first
    for _ in range(200):
        clouds[0].types = (replace(clouds[0].types[0]),)
        asyncio.run(router.instance_types(pool("red")))
    assert len(router._labeled_types) == MOST_CATALOGS


def test_a_snapshot_file_keeps_the_catalogs_of_all_providers(clouds):
    router = CloudRouter(clouds)
    catalogs = {name: asyncio.run(router.instance_types(pool(name))) for name in ("red", "blue")}
    assert load_catalogs(dump_catalogs(catalogs), faults := []) == catalogs
    assert not faults


def test_a_node_is_unhealthy_by_the_policies_of_its_own_provider_only(clouds):
    policies = CloudRouter(clouds).repair_statements()
    conditions = tuple(Condition(type=f"{name}Broken", status="True") for name in ("red", "blue"))
    node = Node(
        metadata=ObjectMeta(name="n", labels={"red.example/class": "x"}), status=NodeStatus(conditions=conditions)
    )
    assert [found.type for found, _ in symptoms(node, policies)] == ["redBroken"]


def test_a_repair_policy_for_a_condition_of_another_provider_has_no_effect(clouds):
    red = pool("red")
    written = pool("red", repair={"policies": [{"conditionType": "blueBroken", "toleration": "5m"}]})
    policies = CloudRouter(clouds).repair_statements()
    assert not list(policies_without_effect(red, policies))
    (fault,) = policies_without_effect(written, policies)
    assert "redBroken" in str(fault)


class RoutedSupply(KwokSupply):
    async def later(self):
        return CloudRouter([Empty("red"), make(self.cluster)])


class Empty(Cloud):
    """The other provider has no instances."""

    async def list(self):
        return ()


@pytest.mark.parametrize("case", CASES, ids=title)
def test_the_contract_holds_behind_the_router(case):
    async def story():
        world = World()
        await world.create(KWOK_NODE_CLASS, KWOKNodeClass(metadata=ObjectMeta(name="default")))
        await case(RoutedSupply(world, CloudRouter([Empty("red"), make(world)]), REF))

    run(story(), limit=3600)
