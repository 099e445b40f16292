"""Update the shipped price table from the pricing API.

Run `python -m dovetail.cloud.aws.catalog.update_price_table REGION...`. It needs an identity with the permission
`pricing:GetProducts`. Regions that are not named stay unchanged.
"""

import asyncio
import gzip
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from dovetail.cloud.aws.catalog.offerings import Prices
from dovetail.cloud.aws.clients import AwsClients

TABLE = Path(__file__).with_name("prices.json.gz")


class _SystemClock:
    def now(self) -> datetime:
        """The system time: a person runs this module."""
        return datetime.now(UTC)


def compress(table: dict[str, dict[str, float]]) -> bytes:
    """The table as shipped bytes; equal tables give equal bytes."""
    return gzip.compress(json.dumps(table, sort_keys=True, separators=(",", ":")).encode(), mtime=0)


async def update(regions: list[str]) -> None:
    """Read the prices of each region and write them to the table."""
    table: dict[str, dict[str, float]] = json.loads(gzip.decompress(TABLE.read_bytes()))
    aws = AwsClients()
    try:
        for region in regions:
            table[region] = dict(await Prices(aws, _SystemClock()).read_on_demand(region))
    finally:
        await aws.aclose()
    TABLE.write_bytes(compress(table))


if __name__ == "__main__":
    asyncio.run(update(sys.argv[1:]))
