"""The images of a node class: by alias or parameter through SSM, by id, name and tags through EC2.

Of images that the same machines can run, the best is kept: not deprecated, then newest, then the greater name. The list
is ordered newest first, and an instance type runs the first that suits it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from dovetail.cloud.aws.clients import AwsClients
from dovetail.cloud.aws.resolve.ami_aliases import AliasedAmi, aliased_images
from dovetail.cloud.aws.resolve.selector_terms import key_of, named, tagged
from dovetail.cloud.aws.ttl_cache import TtlCache
from dovetail.model.ec2nodeclass import AMISelectorTerm, EC2NodeClassSpec, ResolvedAMI
from dovetail.model.labels import ARCH
from dovetail.model.nodepool import NodeRequirement, read_requirements
from dovetail.model.requirements import Requirements
from dovetail.ports.clock import Clock

LIFETIME = timedelta(minutes=5)
_MOST_PARAMETERS = 10  # that SSM answers for at once
_ARCHITECTURES = {"x86_64": "amd64", "arm64": "arm64"}
_OURS = ("self", "amazon")
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Ami:
    """An image as EC2 told of it, and what runs it."""

    id: str
    name: str
    created_at: datetime
    deprecated: bool
    requirements: tuple[NodeRequirement, ...]

    @property
    def rank(self) -> tuple[bool, datetime, str]:
        """The greater, the better."""
        return not self.deprecated, self.created_at, self.name

    @property
    def resolved(self) -> ResolvedAMI:
        """As the status of a node class has it."""
        return ResolvedAMI(id=self.id, name=self.name, deprecated=self.deprecated, requirements=self.requirements)


def image_for(ec2_type: Requirements, amis: Iterable[ResolvedAMI]) -> ResolvedAMI | None:
    """The image an instance type is started from: the first that suits it."""
    return next((ami for ami in amis if ec2_type.intersects(_wanted(ami.requirements)) is None), None)


@lru_cache(maxsize=256)
def _wanted(requirements: tuple[NodeRequirement, ...]) -> Requirements:
    return read_requirements(requirements)


class Amis:
    """Finds images, and asks again after five minutes."""

    def __init__(self, aws: AwsClients, clock: Clock) -> None:
        self._aws = aws
        self._clock = clock
        self._kept: TtlCache[tuple[bytes, str], tuple[Ami, ...]] = TtlCache(clock, LIFETIME)

    async def find(self, spec: EC2NodeClassSpec, kubernetes: str) -> tuple[Ami, ...]:
        """Those the terms select, one for each kind of machine, newest first."""
        terms = spec.image_terms
        return await self._kept.get((key_of(terms), kubernetes), lambda: self._ask(terms, kubernetes))

    async def _ask(self, terms: tuple[AMISelectorTerm, ...], kubernetes: str) -> tuple[Ami, ...]:
        found: list[Ami] = []
        ids = [term.id for term in terms if term.id]
        for term in terms:
            if term.alias:
                found.extend(await self._aliased(aliased_images(term, kubernetes)))
            elif term.ssm_parameter:
                ids.extend((await self._parameters([term.ssm_parameter])).values())
            elif term.name or term.tags:
                found.extend(await self._described(_request(term)))
        if ids:
            found.extend(await self._described({"Filters": [named("image-id", *sorted(set(ids)))]}))
        return _best(found)

    async def _aliased(self, wanted: tuple[AliasedAmi, ...]) -> list[Ami]:
        """What the parameters of an alias point at. One that is not published is an image that does not exist."""
        values = await self._parameters(sorted({each.parameter for each in wanted}))
        ids = {each: values[each.parameter] for each in wanted if each.parameter in values}
        if not ids:
            return []
        images = await self._described({"Filters": [named("image-id", *sorted(set(ids.values())))]})
        by_id = {image.id: image for image in images}
        return [
            Ami(image.id, image.name, image.created_at, image.deprecated, each.requirements)
            for each, id_ in ids.items()
            if (image := by_id.get(id_)) is not None
        ]

    async def _parameters(self, names: list[str]) -> dict[str, str]:
        """The image ids the parameters hold. One that does not exist, or holds something else, is left out."""
        held: dict[str, str] = {}
        for start in range(0, len(names), _MOST_PARAMETERS):
            asked = names[start : start + _MOST_PARAMETERS]
            answer = await self._aws.call("ssm", "get_parameters", Names=asked)
            for each in answer["Parameters"]:
                name = next((name for name in asked if name in (each["Name"], each.get("ARN"))), each["Name"])
                held[name] = each["Value"]
        return {name: value for name, value in held.items() if value.startswith("ami-")}

    async def _described(self, request: dict[str, Any]) -> list[Ami]:
        request["Filters"] = [*request.get("Filters", ()), named("state", "available")]
        said = await self._aws.collect("ec2", "describe_images", "Images", IncludeDeprecated=True, **request)
        return [self._image(each) for each in said if each.get("Architecture") in _ARCHITECTURES]

    def _image(self, said: Mapping[str, Any]) -> Ami:
        deprecated_at = _instant(said.get("DeprecationTime"))
        architecture = NodeRequirement(key=ARCH, operator="In", values=(_ARCHITECTURES[said["Architecture"]],))
        return Ami(
            said["ImageId"],
            said.get("Name", ""),
            _instant(said.get("CreationDate")) or _LONG_AGO,
            deprecated_at is not None and deprecated_at <= self._clock.now(),
            (architecture,),
        )


def _request(term: AMISelectorTerm) -> dict[str, Any]:
    filters = tagged(term.tags)
    if term.name:
        filters.append(named("name", term.name))
    request: dict[str, Any] = {"Filters": filters}
    owners = [term.owner] if term.owner else list(_OURS) if term.name else []
    if owners:
        request["Owners"] = owners
    return request


def _best(found: Iterable[Ami]) -> tuple[Ami, ...]:
    best: dict[bytes, Ami] = {}
    for image in found:
        key = key_of(image.requirements)
        if key not in best or best[key].rank < image.rank:
            best[key] = image
    return tuple(sorted(best.values(), key=lambda image: image.rank, reverse=True))


def _instant(text: str | None) -> datetime | None:
    if not text:
        return None
    read = datetime.fromisoformat(text)
    return read if read.tzinfo else read.replace(tzinfo=UTC)
