"""Update the shipped price table from the pricing API.

Run it as `python -m dovetail.cloud.aws.catalog.update_price_table REGION...`.

Needs an identity that may call `pricing:GetProducts`. Regions that are not named stay as they are.
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


class _Now:
    def now(self) -> datetime:
        """The machine's own time: this is run by hand."""
        return datetime.now(UTC)


def packed(table: dict[str, dict[str, float]]) -> bytes:
    """The table as it is shipped: equal tables are equal bytes."""
    return gzip.compress(json.dumps(table, sort_keys=True, separators=(",", ":")).encode(), mtime=0)


async def renew(regions: list[str]) -> None:
    """Ask for the prices of each region and write them into the table."""
    table: dict[str, dict[str, float]] = json.loads(gzip.decompress(TABLE.read_bytes()))
    aws = AwsClients()
    try:
        for region in regions:
            table[region] = dict(await Prices(aws, _Now()).ask_on_demand(region))
    finally:
        await aws.aclose()
    TABLE.write_bytes(packed(table))


if __name__ == "__main__":
    asyncio.run(renew(sys.argv[1:]))
