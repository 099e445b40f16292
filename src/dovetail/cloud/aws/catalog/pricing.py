"""What an hour costs: on demand from the pricing API, spot from the price history, and a shipped table before that.

Refreshed at the start and every twelve hours. A refresh that fails keeps what was known. Until spot prices were seen
once, spot is thought to cost as much as on demand; from then on, spot without a price is not for sale.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime

from dovetail.cloud.aws.catalog.ec2_instance_type import shipped_prices
from dovetail.cloud.aws.clients import AwsClients
from dovetail.ports.clock import Clock

_PRICING_REGIONS = (("cn-", "cn-northwest-1"), ("ap-", "ap-south-1"), ("eu-", "eu-central-1"))
_HOME = "us-east-1"
_LINUX = "Linux/UNIX"
_PLAIN_LINUX = {
    "serviceCode": "AmazonEC2",
    "operatingSystem": "Linux",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}
_TENANCIES = (("Shared", "Compute Instance"), ("Dedicated", "Compute Instance (bare metal)"))


class Prices:
    """Prices per hour, in the currency of the region. `version` grows with every change."""

    def __init__(self, aws: AwsClients, clock: Clock, *, isolated: bool = False) -> None:
        self._aws = aws
        self._clock = clock
        self._isolated = isolated
        self._on_demand: Mapping[str, float] = {}
        self._spot: Mapping[tuple[str, str], float] | None = None
        self.version = 0

    def on_demand(self, instance_type: str) -> float | None:
        """The price on demand, or None if nobody knows it."""
        return self._known().get(instance_type)

    def spot(self, instance_type: str, zone: str) -> float | None:
        """The price on the spot market of a zone, or None if it is not for sale there."""
        if self._spot is None:
            return self.on_demand(instance_type)
        return self._spot.get((instance_type, zone))

    def _known(self) -> Mapping[str, float]:
        if not self._on_demand:
            self._on_demand = shipped_prices(self._aws.region)
        return self._on_demand

    async def refresh_on_demand(self) -> None:
        """Ask the pricing API. What it does not list keeps the price it had."""
        region = self._aws.region
        if self._isolated or region.startswith("us-gov-"):
            return  # the pricing API cannot be reached from there
        found = await self.ask_on_demand(region)
        if found:
            self._on_demand = {**self._known(), **found}
            self.version += 1

    async def ask_on_demand(self, region: str) -> Mapping[str, float]:
        """What the pricing API says of a region now, by instance type."""
        found: dict[str, float] = {}
        currency = "CNY" if region.startswith("cn-") else "USD"
        for tenancy, product_family in _TENANCIES:
            fields = {**_PLAIN_LINUX, "regionCode": region, "tenancy": tenancy, "productFamily": product_family}
            filters = [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in fields.items()]
            home = _pricing_region(region)
            pages = self._aws.pages("pricing", "get_products", region=home, ServiceCode="AmazonEC2", Filters=filters)
            async for page in pages:
                found.update(pair for each in page["PriceList"] for pair in _read_product(each, currency))
        return found

    async def refresh_spot(self) -> None:
        """Ask for the spot prices of now, all at once."""
        newest: dict[tuple[str, str], tuple[datetime, float]] = {}
        pages = self._aws.pages(
            "ec2", "describe_spot_price_history", StartTime=self._clock.now(), ProductDescriptions=[_LINUX]
        )
        async for page in pages:
            for each in page["SpotPriceHistory"]:
                key, told_at = (each["InstanceType"], each["AvailabilityZone"]), each["Timestamp"]
                if key not in newest or newest[key][0] < told_at:
                    newest[key] = (told_at, float(each["SpotPrice"]))
        if newest:
            self._spot = {key: price for key, (_, price) in newest.items()}
            self.version += 1


def _pricing_region(region: str) -> str:
    return next((home for prefix, home in _PRICING_REGIONS if region.startswith(prefix)), _HOME)


def _read_product(text: str, currency: str) -> Iterator[tuple[str, float]]:
    product = json.loads(text)
    name = product["product"]["attributes"].get("instanceType", "")
    for term in product.get("terms", {}).get("OnDemand", {}).values():
        for dimension in term["priceDimensions"].values():
            price = float(dimension["pricePerUnit"].get(currency, 0))
            if name and price > 0:
                yield name, price
