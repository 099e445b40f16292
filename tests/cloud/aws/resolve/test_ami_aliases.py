"""The SSM parameters of an alias, and the instance types of each image."""

import pytest

from dovetail.cloud.aws.resolve.amis import aliased_images, image_for
from dovetail.model.ec2nodeclass import AMISelectorTerm, ResolvedAMI
from dovetail.model.requirements import Requirement, Requirements

EKS = "/aws/service/eks/optimized-ami/1.31"
GPU, ACCELERATOR = "karpenter.k8s.aws/instance-gpu-count", "karpenter.k8s.aws/instance-accelerator-count"


def paths(alias, kubernetes="1.31"):
    return {
        (each.architecture, each.variant): each.parameter
        for each in aliased_images(AMISelectorTerm(alias=alias), kubernetes)
    }


@pytest.mark.parametrize(
    ("alias", "image", "path"),
    [
        ("al2023@latest", ("amd64", "standard"), f"{EKS}/amazon-linux-2023/x86_64/standard/recommended/image_id"),
        ("al2023@latest", ("amd64", "neuron"), f"{EKS}/amazon-linux-2023/x86_64/neuron/recommended/image_id"),
        (
            "al2023@v20240703",
            ("arm64", "standard"),
            f"{EKS}/amazon-linux-2023/arm64/standard/amazon-eks-node-al2023-arm64-standard-1.31-v20240703/image_id",
        ),
        ("al2@latest", ("arm64", "standard"), f"{EKS}/amazon-linux-2-arm64/recommended/image_id"),
        ("al2@v20240703", ("amd64", "nvidia"), f"{EKS}/amazon-linux-2-gpu/amazon-eks-gpu-node-1.31-v20240703/image_id"),
        (
            "bottlerocket@v1.20.0",
            ("amd64", "nvidia"),
            "/aws/service/bottlerocket/aws-k8s-1.31-nvidia/x86_64/1.20.0/image_id",
        ),
        (
            "bottlerocket@latest",
            ("arm64", "standard"),
            "/aws/service/bottlerocket/aws-k8s-1.31/arm64/latest/image_id",
        ),
        (
            "windows2022@latest",
            ("amd64", "standard"),
            "/aws/service/ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-1.31/image_id",
        ),
    ],
)
def test_paths(alias, image, path):
    assert paths(alias)[image] == path


def ec2_type(architecture, gpus="", accelerators=""):
    said = [("kubernetes.io/arch", architecture), (GPU, gpus), (ACCELERATOR, accelerators)]
    return Requirements.of(
        Requirement.of(key, "In" if value else "DoesNotExist", (value,) if value else ()) for key, value in said
    )


@pytest.mark.parametrize(
    ("wanted", "image"),
    [
        (ec2_type("amd64"), ("amd64", "standard")),
        (ec2_type("arm64"), ("arm64", "standard")),
        (ec2_type("amd64", gpus="1"), ("amd64", "nvidia")),
        (ec2_type("arm64", gpus="1"), ("arm64", "nvidia")),
        (ec2_type("amd64", accelerators="6"), ("amd64", "neuron")),
    ],
)
def test_each_instance_type_gets_the_image_with_its_drivers(wanted, image):
    images = aliased_images(AMISelectorTerm(alias="al2023@latest"), "1.31")
    amis = [ResolvedAMI(id=f"{each.architecture} {each.variant}", requirements=each.requirements) for each in images]
    assert image_for(wanted, amis).id == " ".join(image)


def test_an_instance_type_without_a_matching_image_gets_none():
    amis = [
        ResolvedAMI(id="a", requirements=aliased_images(AMISelectorTerm(alias="al2023@latest"), "1.31")[0].requirements)
    ]
    assert image_for(ec2_type("amd64", gpus="1"), amis) is None
