"""Which subnet of each zone the next instance goes to: the one with most free addresses, launches under way included.

EC2 tells of free addresses a minute late. What a launch is going to take is remembered until then.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from dovetail.cloud.aws.catalog.unavailable_offerings import UnavailableOfferings
from dovetail.cloud.aws.resolve.subnets import LIFETIME, Subnet
from dovetail.ports.clock import Clock


class SubnetSelection:
    """Addresses spoken for."""

    def __init__(self, clock: Clock, unavailable: UnavailableOfferings) -> None:
        self._clock = clock
        self._unavailable = unavailable
        self._taken: list[tuple[datetime, str, int]] = []

    def choose(self, subnets: Iterable[Subnet]) -> Mapping[str, str]:
        """One subnet for each zone, by zone; those that were full a moment ago are left out."""
        self._sweep()
        chosen: dict[str, Subnet] = {}
        for subnet in sorted(subnets, key=lambda each: (-self._left(each), each.id)):
            if not self._unavailable.covers_subnet(subnet.id):
                chosen.setdefault(subnet.zone, subnet)
        return {zone: subnet.id for zone, subnet in chosen.items()}

    def take(self, subnet_ids: Sequence[str], count: int) -> datetime:
        """A launch may land in any of these; the answer gives them back."""
        now = self._clock.now()
        self._taken.extend((now + LIFETIME, each, count) for each in subnet_ids)
        return now + LIFETIME

    def give_back(self, until: datetime, subnet_ids: Iterable[str], count: int) -> None:
        """It did not land in these."""
        for each in subnet_ids:
            if (until, each, count) in self._taken:
                self._taken.remove((until, each, count))

    def _left(self, subnet: Subnet) -> int:
        return subnet.free_addresses - sum(count for _, id_, count in self._taken if id_ == subnet.id)

    def _sweep(self) -> None:
        now = self._clock.now()
        self._taken = [each for each in self._taken if each[0] > now]
