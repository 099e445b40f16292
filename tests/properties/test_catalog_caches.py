"""Law: the catalog of a provider that lived through changes is that of a new provider, whatever changed.

AWS: machines, zones, prices, shortages, the memory of nodes, images, kubelet settings, subnets, reservations and time.
kwok: shortages that begin, end or time out.
"""

import asyncio
import gzip
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import resources
from random import Random

import pytest
from msgspec import structs

from cloud.kwok.claims import instance_type
from dovetail.cloud.aws.catalog.capacity import Margins, ObservedMemory
from dovetail.cloud.aws.catalog.catalog import InstanceTypeCatalog
from dovetail.cloud.aws.catalog.offerings import OfferingKey, OfferingScope, Prices, UnavailableOfferings
from dovetail.cloud.kwok.offering_selection import Shortage
from dovetail.cloud.kwok.provider import KwokProvider
from dovetail.model.ec2nodeclass import EC2NodeClass, ResolvedAMI, ResolvedCapacityReservation
from dovetail.model.nodepool import NodePool
from dovetail.model.resources import Quantity

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
ZONES = ("a", "b")
NAMES = ("m5.large", "m5.xlarge", "c5.large", "m6g.large")
STEPS = 30


class Clock:
    """A clock that is set by hand."""

    def __init__(self):
        self.at = NOON

    def now(self):
        return self.at


@cache
def described():
    """EC2's own description of a few instance types."""
    packed = resources.files("moto.ec2.resources").joinpath("instance_types.json.gz").read_bytes()
    every = json.loads(gzip.decompress(packed))
    return {name: every[name] for name in NAMES}


class Region:
    """What AWS would answer now."""

    region = "us-east-1"

    def __init__(self):
        self.machines = dict(described())
        self.zones = {name: set(ZONES) for name in NAMES}
        self.on_demand = dict.fromkeys(NAMES, 0.1)
        self.spot = {(name, zone): 0.05 for name in NAMES for zone in ZONES}

    async def collect(self, _service, _operation, _field, **_given):
        return list(self.machines.values())

    async def pages(self, _service, operation, **_given):
        if operation == "get_products":
            yield {"PriceList": [_product(*each) for each in self.on_demand.items()]}
        elif operation == "describe_spot_price_history":
            pairs = self.spot.items()
            told = [
                {"InstanceType": n, "AvailabilityZone": z, "SpotPrice": p, "Timestamp": NOON} for (n, z), p in pairs
            ]
            yield {"SpotPriceHistory": told}
        else:
            sold = [{"InstanceType": name, "Location": zone} for name, zones in self.zones.items() for zone in zones]
            yield {"InstanceTypeOfferings": sold}


def _product(name, price):
    terms = {"OnDemand": {"t": {"priceDimensions": {"d": {"pricePerUnit": {"USD": str(price)}}}}}}
    return json.dumps({"product": {"attributes": {"instanceType": name}}, "terms": terms})


class AwsStory:
    """A catalog that lives through changes. `fresh` has the same prices and shortages, and worked out nothing."""

    def __init__(self, seed):
        self.rng, self.clock, self.region = Random(seed), Clock(), Region()  # noqa: S311 - reproducible, not secret
        self.prices = Prices(self.region, self.clock)
        self.short, self.seen = UnavailableOfferings(self.clock), ObservedMemory(None)
        self.kept = self.fresh()
        self.node_class = EC2NodeClass()
        self.with_class(kubelet={"maxPods": 20}, ami_family="AL2023")
        self.with_images(ResolvedAMI(id="ami-1"))
        self.type_table = OfferingScope(frozenset(ZONES), {zone: f"id-{zone}" for zone in ZONES})
        self.memory = 4000
        changes = (name for name in dir(self) if name.startswith("change_"))
        self.changes = {name: getattr(self, name) for name in changes}

    def fresh(self):
        return InstanceTypeCatalog(self.region, self.prices, self.short, Margins(), self.seen)

    def with_class(self, **spec):
        self.node_class = structs.replace(self.node_class, spec=structs.replace(self.node_class.spec, **spec))

    def with_images(self, *amis):
        status = structs.replace(self.node_class.status, amis=amis)
        self.node_class = structs.replace(self.node_class, status=status)

    async def change_machines(self):
        name = self.rng.choice(NAMES)
        if self.region.machines.pop(name, None) is None:
            self.region.machines[name] = described()[name]
        await self.kept.refresh()

    async def change_zones(self):
        self.region.zones[self.rng.choice(NAMES)] ^= {self.rng.choice(ZONES)}
        await self.kept.refresh()

    async def change_on_demand(self):
        self.region.on_demand[self.rng.choice(NAMES)] = self.rng.choice((0.2, 0.3))
        await self.prices.refresh_on_demand()

    async def change_spot(self):
        self.region.spot[self.rng.choice(NAMES), self.rng.choice(ZONES)] = self.rng.choice((0.02, 0.03))
        await self.prices.refresh_spot()

    async def change_shortage(self):
        sold = OfferingKey(self.rng.choice(("spot", "on-demand")), self.rng.choice(NAMES), self.rng.choice(ZONES))
        self.short.mark(sold) if self.rng.random() < 0.8 else self.short.mark_all_spot()

    async def change_time(self):
        self.clock.at += timedelta(seconds=self.rng.choice((1, 61, 181)))

    async def change_memory(self):
        self.memory -= 1
        self.seen._record(
            {(self.rng.choice(NAMES), self.rng.choice(("ami-1", "ami-2"))): Quantity.of(f"{self.memory}Mi")}
        )

    async def change_images(self):
        self.with_images(*self.rng.choice(((), (ResolvedAMI(id="ami-1"),), (ResolvedAMI(id="ami-2"),))))

    async def change_kubelet(self):
        self.with_class(kubelet=self.rng.choice(({"maxPods": 20}, {"maxPods": 30}, None)))

    async def change_tracking(self):
        self.with_class(ami_family=self.rng.choice(("AL2023", "Bottlerocket")))

    async def change_subnets(self):
        zones = frozenset(self.rng.sample(ZONES, self.rng.choice((1, 2))))
        ids = {zone: f"id-{zone}-{self.rng.choice('12')}" for zone in zones}
        self.type_table = replace(self.type_table, zones=zones, zone_ids=ids)

    async def change_reservations(self):
        held = ResolvedCapacityReservation(id="cr-1", availability_zone="a", instance_type="m5.large", state="active")
        counts = {"cr-1": self.rng.choice((0, 1))}
        self.type_table = replace(self.type_table, reservations=self.rng.choice(((), (held,))), reserved_counts=counts)


async def live(story, effects):
    said = None
    for _ in range(STEPS):
        name = story.rng.choice(sorted(story.changes))
        await story.changes[name]()
        kept = await story.kept.instance_types(story.node_class, story.type_table)
        anew = await story.fresh().instance_types(story.node_class, story.type_table)
        assert kept == anew, f"after {name}"
        effects[name] = effects.get(name, 0) + (said is not None and said != anew)
        said = anew


def test_the_aws_catalog_is_that_of_a_new_provider():
    effects = {}
    for seed in range(20):
        asyncio.run(live(AwsStory(seed), effects))
    assert len(effects) == 12
    assert all(effects.values()), f"changes that made no difference prove nothing: {effects}"


KWOK = (
    instance_type("m5.large", ("a", "spot", 0.04), ("a", "on-demand", 0.1), ("b", "spot", 0.03)),
    instance_type("c5.large", ("a", "spot", 0.05), ("b", "spot", 0.03)),
)


@pytest.mark.parametrize("seed", range(40))
def test_the_kwok_catalog_is_that_of_a_new_provider(seed):
    """The new one is told the shortages that are left."""
    rng, clock = Random(seed), Clock()  # noqa: S311 - reproducible, not secret
    kept, begun, avoided, said = KwokProvider(None, KWOK, clock), set(), {}, set()
    for _ in range(STEPS):
        names, zones, ways = ("m5.large", "c5.large"), ("", "a", "b"), ("", "spot")
        short = Shortage(instance_type=rng.choice(names), zone=rng.choice(zones), capacity_type=rng.choice(ways))
        change = rng.choice(("begin", "end", "avoid", "time"))
        if change == "begin":
            kept.availability.begin(short)
            begun.add(short)
        elif change == "end":
            ended = rng.choice(sorted(begun, key=str)) if begun else short
            kept.availability.end(ended)
            begun.discard(ended)
        elif change == "avoid":
            short = rng.choice([short, *avoided])  # some of them again, for longer or for less
            until = clock.at + timedelta(seconds=rng.choice((10, 60, 300)))
            kept.availability.avoid(short, until)
            avoided[short] = max(until, avoided.get(short, until))
        else:
            clock.at += timedelta(seconds=rng.choice((1, 10, 61)))
        avoided = {each: until for each, until in avoided.items() if until > clock.at}
        anew = KwokProvider(None, KWOK, clock)
        for each in begun:
            anew.availability.begin(each)
        for each, until in avoided.items():
            anew.availability.avoid(each, until)
        answers = [asyncio.run(provider.instance_types(NodePool())) for provider in (kept, anew)]
        assert answers[0] == answers[1], f"after {change}"
        said.add(str(answers[0]))
    assert len(said) > 1
