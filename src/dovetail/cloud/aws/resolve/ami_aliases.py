"""Which SSM parameters hold the images an alias stands for: one for each architecture and kind of device.

Keeps the paths EKS and Bottlerocket publish their images under. What a parameter says is asked elsewhere.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from dovetail.cloud.aws import labels
from dovetail.model.ec2nodeclass import LATEST, AMISelectorTerm
from dovetail.model.labels import ARCH
from dovetail.model.nodepool import NodeRequirement

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
