"""The images of a node class: by alias or parameter through SSM, by id, name and tags through EC2.

Of images that the same machines can run, the best is kept: not deprecated, then newest, then the greater name. The list
is ordered newest first, and an instance type runs the first that suits it.

Which SSM parameters hold the images an alias stands for: one for each architecture and kind of device.

Keeps the paths EKS and Bottlerocket publish their images under. What a parameter says is asked elsewhere.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from dovetail.cloud.aws import labels
from dovetail.cloud.aws.clients import AwsClients, TtlCache
from dovetail.cloud.aws.resolve.network import key_of, named, tagged
from dovetail.model.ec2nodeclass import LATEST, AMISelectorTerm, EC2NodeClassSpec, ResolvedAMI
from dovetail.model.labels import ARCH
from dovetail.model.nodepool import NodeRequirement, read_requirements
from dovetail.model.requirements import Requirements
from dovetail.ports.clock import Clock

_EKS = "/aws/service/eks/optimized-ami"
_BOTTLEROCKET = "/aws/service/bottlerocket"
_WINDOWS = "/aws/service/ami-windows-latest"
_AMD64, _ARM64 = ("amd64", "x86_64"), ("arm64", "arm64")
STANDARD, NVIDIA, NEURON = "standard", "nvidia", "neuron"


@dataclass(frozen=True, slots=True)
class AliasedAmi:
    """A parameter that holds the id of an image, and what a machine must be to run it."""

    parameter: str
    architecture: str
    variant: str = STANDARD

    @property
    def requirements(self) -> tuple[NodeRequirement, ...]:
        """Architecture and devices, as requirements on an instance type."""
        return (
            NodeRequirement(key=ARCH, operator="In", values=(self.architecture,)),
            *variant_of(self.variant),
        )


def variant_of(variant: str) -> tuple[NodeRequirement, ...]:
    """What the variant of an image asks of a machine's devices."""
    gpu = "Exists" if variant == NVIDIA else "DoesNotExist"
    accelerator = "Exists" if variant == NEURON else "DoesNotExist"
    wanted = {labels.INSTANCE_GPU_COUNT: gpu, labels.INSTANCE_ACCELERATOR_COUNT: accelerator}
    if variant != STANDARD:
        wanted = {key: operator for key, operator in wanted.items() if operator == "Exists"}
    return tuple(NodeRequirement(key=key, operator=operator) for key, operator in wanted.items())


def aliased_images(term: AMISelectorTerm, kubernetes: str) -> tuple[AliasedAmi, ...]:
    """Every image of an alias, for one minor version of Kubernetes such as `1.31`."""
    version = term.alias_version
    match term.alias_family:
        case "AL2023":
            return tuple(_al2023(kubernetes, version))
        case "AL2":
            return tuple(_al2(kubernetes, version))
        case "Bottlerocket":
            return tuple(_bottlerocket(kubernetes, version))
        case windows if windows.startswith("Windows"):
            year = windows.removeprefix("Windows")
            path = f"{_WINDOWS}/Windows_Server-{year}-English-Core-EKS_Optimized-{kubernetes}/image_id"
            return (AliasedAmi(path, "amd64"),)
        case _:
            return ()


def _al2023(kubernetes: str, version: str) -> Iterator[AliasedAmi]:
    for (arch, spelled), variants in ((_AMD64, (STANDARD, NVIDIA, NEURON)), (_ARM64, (STANDARD, NVIDIA))):
        for variant in variants:
            pinned = f"amazon-eks-node-al2023-{spelled}-{variant}-{kubernetes}-{version}"
            name = "recommended" if version == LATEST else pinned
            path = f"{_EKS}/{kubernetes}/amazon-linux-2023/{spelled}/{variant}/{name}/image_id"
            yield AliasedAmi(path, arch, variant)


def _al2(kubernetes: str, version: str) -> Iterator[AliasedAmi]:
    for suffix, arch, variant in (("", "amd64", STANDARD), ("-arm64", "arm64", STANDARD), ("-gpu", "amd64", NVIDIA)):
        name = "recommended" if version == LATEST else f"amazon-eks{suffix}-node-{kubernetes}-{version}"
        yield AliasedAmi(f"{_EKS}/{kubernetes}/amazon-linux-2{suffix}/{name}/image_id", arch, variant)
    name = "recommended" if version == LATEST else f"amazon-eks-gpu-node-{kubernetes}-{version}"
    yield AliasedAmi(f"{_EKS}/{kubernetes}/amazon-linux-2-gpu/{name}/image_id", "amd64", NEURON)


def _bottlerocket(kubernetes: str, version: str) -> Iterator[AliasedAmi]:
    for arch, spelled in (_AMD64, _ARM64):
        for variant, suffix in ((STANDARD, ""), (NVIDIA, "-nvidia"), (NEURON, "")):
            path = f"{_BOTTLEROCKET}/aws-k8s-{kubernetes}{suffix}/{spelled}/{version.removeprefix('v')}/image_id"
            yield AliasedAmi(path, arch, variant)


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
