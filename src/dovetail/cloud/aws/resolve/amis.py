"""Resolves the AMI selector terms of an EC2NodeClass.

An alias selects the AMIs that EKS and Bottlerocket publish as SSM parameters, one for each architecture and device
variant (standard, NVIDIA, Neuron); `aliased_images` lists the parameters. Other terms select by id, SSM parameter, or
name, owner and tags through DescribeImages.

Of AMIs with equal requirements one remains: not deprecated first, then the newest, then the greater name. The result is
ordered newest first, and an instance type uses the first AMI whose requirements it meets.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from typing import Any

from dovetail.cloud.aws import labels
from dovetail.cloud.aws.clients import AwsClients, AwsError, TtlCache
from dovetail.cloud.aws.resolve.network import cache_key, ec2_filter, tag_filters
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
    """An SSM parameter that holds an AMI id, and which instance types can run that AMI."""

    parameter: str
    architecture: str
    variant: str = STANDARD

    @property
    def requirements(self) -> tuple[NodeRequirement, ...]:
        """Architecture and devices, as requirements on the instance type."""
        return (
            NodeRequirement(key=ARCH, operator="In", values=(self.architecture,)),
            *variant_requirements(self.variant),
        )


def variant_requirements(variant: str) -> tuple[NodeRequirement, ...]:
    """The requirements of an AMI variant on GPUs and accelerators."""
    gpu = "Exists" if variant == NVIDIA else "DoesNotExist"
    accelerator = "Exists" if variant == NEURON else "DoesNotExist"
    aliased = {labels.INSTANCE_GPU_COUNT: gpu, labels.INSTANCE_ACCELERATOR_COUNT: accelerator}
    if variant != STANDARD:
        aliased = {key: operator for key, operator in aliased.items() if operator == "Exists"}
    return tuple(NodeRequirement(key=key, operator=operator) for key, operator in aliased.items())


def aliased_images(term: AMISelectorTerm, kubernetes: str) -> tuple[AliasedAmi, ...]:
    """The SSM parameters of an alias, for a Kubernetes minor version, for example `1.31`."""
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
    for (arch, aws_arch), variants in ((_AMD64, (STANDARD, NVIDIA, NEURON)), (_ARM64, (STANDARD, NVIDIA))):
        for variant in variants:
            pinned = f"amazon-eks-node-al2023-{aws_arch}-{variant}-{kubernetes}-{version}"
            name = "recommended" if version == LATEST else pinned
            path = f"{_EKS}/{kubernetes}/amazon-linux-2023/{aws_arch}/{variant}/{name}/image_id"
            yield AliasedAmi(path, arch, variant)


def _al2(kubernetes: str, version: str) -> Iterator[AliasedAmi]:
    for suffix, arch, variant in (("", "amd64", STANDARD), ("-arm64", "arm64", STANDARD), ("-gpu", "amd64", NVIDIA)):
        name = "recommended" if version == LATEST else f"amazon-eks{suffix}-node-{kubernetes}-{version}"
        yield AliasedAmi(f"{_EKS}/{kubernetes}/amazon-linux-2{suffix}/{name}/image_id", arch, variant)
    name = "recommended" if version == LATEST else f"amazon-eks-gpu-node-{kubernetes}-{version}"
    yield AliasedAmi(f"{_EKS}/{kubernetes}/amazon-linux-2-gpu/{name}/image_id", "amd64", NEURON)


def _bottlerocket(kubernetes: str, version: str) -> Iterator[AliasedAmi]:
    for arch, aws_arch in (_AMD64, _ARM64):
        for variant, suffix in ((STANDARD, ""), (NVIDIA, "-nvidia"), (NEURON, "")):
            path = f"{_BOTTLEROCKET}/aws-k8s-{kubernetes}{suffix}/{aws_arch}/{version.removeprefix('v')}/image_id"
            yield AliasedAmi(path, arch, variant)


LIFETIME = timedelta(minutes=1)
PARAMETER_LIFETIME = timedelta(minutes=5)
_ARCHITECTURES = {"x86_64": "amd64", "arm64": "arm64"}
_DEFAULT_OWNERS = ("self", "amazon")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Ami:
    """An AMI as EC2 described it, and the requirements on instance types that run it."""

    id: str
    name: str
    created_at: datetime
    deprecated: bool
    requirements: tuple[NodeRequirement, ...]

    @property
    def rank(self) -> tuple[bool, datetime, str]:
        """Sort key; the AMI with the greatest rank is preferred."""
        return not self.deprecated, self.created_at, self.name

    @property
    def resolved(self) -> ResolvedAMI:
        """The form in the status of the class."""
        return ResolvedAMI(id=self.id, name=self.name, deprecated=self.deprecated, requirements=self.requirements)


def image_for(ec2_type: Requirements, amis: Iterable[ResolvedAMI]) -> ResolvedAMI | None:
    """The AMI that an instance type uses: the first whose requirements it meets."""
    return next((ami for ami in amis if ec2_type.intersects(_parse_ami_requirements(ami.requirements)) is None), None)


@lru_cache(maxsize=256)
def _parse_ami_requirements(requirements: tuple[NodeRequirement, ...]) -> Requirements:
    return read_requirements(requirements)


class Amis:
    """Finds AMIs, cached for `lifetime`. SSM parameters, which change rarely, are cached for five minutes."""

    def __init__(self, aws: AwsClients, clock: Clock, lifetime: timedelta = LIFETIME) -> None:
        self._aws = aws
        self._clock = clock
        self._cache: TtlCache[tuple[bytes, str], tuple[Ami, ...]] = TtlCache(clock, lifetime)
        self._parameters: TtlCache[str, str] = TtlCache(clock, PARAMETER_LIFETIME)

    async def find(self, spec: EC2NodeClassSpec, kubernetes: str) -> tuple[Ami, ...]:
        """The matching AMIs, one for each set of requirements, newest first."""
        terms = spec.image_terms
        return await self._cache.get((cache_key(terms), kubernetes), lambda: self._resolve(terms, kubernetes))

    async def _resolve(self, terms: tuple[AMISelectorTerm, ...], kubernetes: str) -> tuple[Ami, ...]:
        found: list[Ami] = []
        ids = [term.id for term in terms if term.id]
        for term in terms:
            if term.alias:
                found.extend(await self._aliased(aliased_images(term, kubernetes)))
            elif term.ssm_parameter:
                ids.extend((await self._read_parameters([term.ssm_parameter])).values())
            elif term.name or term.tags:
                found.extend(await self._described(_request(term)))
        if ids:
            found.extend(await self._described({"Filters": [ec2_filter("image-id", *sorted(set(ids)))]}))
        return _best(found)

    async def _aliased(self, aliased: tuple[AliasedAmi, ...]) -> list[Ami]:
        """The AMIs of an alias. A parameter that is not published is skipped."""
        values = await self._read_parameters(sorted({each.parameter for each in aliased}))
        ids = {each: values[each.parameter] for each in aliased if each.parameter in values}
        if not ids:
            return []
        images = await self._described({"Filters": [ec2_filter("image-id", *sorted(set(ids.values())))]})
        by_id = {image.id: image for image in images}
        return [
            Ami(image.id, image.name, image.created_at, image.deprecated, each.requirements)
            for each, id_ in ids.items()
            if (image := by_id.get(id_)) is not None
        ]

    async def _read_parameters(self, names: list[str]) -> dict[str, str]:
        """The AMI ids that the parameters hold. A parameter that is missing or holds no AMI id is skipped."""
        values = await asyncio.gather(
            *(self._parameters.get(name, partial(self._read_parameter, name)) for name in names)
        )
        return {name: value for name, value in zip(names, values, strict=True) if value.startswith("ami-")}

    async def _read_parameter(self, name: str) -> str:
        """One parameter for each request: Karpenter's policy does not allow GetParameters."""
        try:
            answer = await self._aws.call("ssm", "get_parameter", Name=name)
        except AwsError as error:
            if error.missing:
                return ""
            raise
        return str(answer["Parameter"]["Value"])

    async def _described(self, request: dict[str, Any]) -> list[Ami]:
        request["Filters"] = [*request.get("Filters", ()), ec2_filter("state", "available")]
        described = await self._aws.collect("ec2", "describe_images", "Images", IncludeDeprecated=True, **request)
        return [self._image(each) for each in described if each.get("Architecture") in _ARCHITECTURES]

    def _image(self, described: Mapping[str, Any]) -> Ami:
        deprecated_at = _instant(described.get("DeprecationTime"))
        architecture = NodeRequirement(key=ARCH, operator="In", values=(_ARCHITECTURES[described["Architecture"]],))
        return Ami(
            described["ImageId"],
            described.get("Name", ""),
            _instant(described.get("CreationDate")) or _EPOCH,
            deprecated_at is not None and deprecated_at <= self._clock.now(),
            (architecture,),
        )


def _request(term: AMISelectorTerm) -> dict[str, Any]:
    filters = tag_filters(term.tags)
    if term.name:
        filters.append(ec2_filter("name", term.name))
    request: dict[str, Any] = {"Filters": filters}
    owners = [term.owner] if term.owner else list(_DEFAULT_OWNERS) if term.name else []
    if owners:
        request["Owners"] = owners
    return request


def _best(found: Iterable[Ami]) -> tuple[Ami, ...]:
    best: dict[bytes, Ami] = {}
    for image in found:
        key = cache_key(image.requirements)
        if key not in best or best[key].rank < image.rank:
            best[key] = image
    return tuple(sorted(best.values(), key=lambda image: image.rank, reverse=True))


def _instant(text: str | None) -> datetime | None:
    if not text:
        return None
    read = datetime.fromisoformat(text)
    return read if read.tzinfo else read.replace(tzinfo=UTC)
