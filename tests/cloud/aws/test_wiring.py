"""Startup errors of the aws provider, which is loaded only if selected."""

import asyncio
import subprocess
import sys
from collections import Counter
from contextlib import nullcontext
from datetime import timedelta

import pytest

from builders import nodepool
from cloud.aws.account import Hands
from cloud.aws.claims import REF as EC2
from dovetail.kube.kubeconfig import NO_EKS, EksContext
from dovetail.model.ec2nodeclass import AMISelectorTerm, EC2NodeClassSpec, SubnetSelectorTerm
from dovetail.settings import Settings
from dovetail.wiring.providers import ProviderUnusable, build_providers, build_readers, require_usable

CLOUDLESS = """
import sys
sys.modules["aiobotocore"] = None
import dovetail.wiring.providers as wiring
from dovetail.settings import Settings
try:
    wiring.build_providers(None, None, Settings(provider="aws", cluster_name="demo"))
except wiring.ProviderUnusable as error:
    print(error)
"""


@pytest.fixture(autouse=True)
def nowhere(monkeypatch):
    """No region, no profile."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ACCESS_KEY_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")


def test_without_the_extra_the_error_has_the_remedy():
    printed = subprocess.run([sys.executable, "-c", CLOUDLESS], capture_output=True, text=True, check=True)
    assert "pip install 'dovetail[aws]'" in printed.stdout


@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        (Settings(provider="aws"), "--cluster-name (CLUSTER_NAME)"),
        (Settings(provider="aws", cluster_name="demo"), "set AWS_REGION"),
        (
            Settings(provider="aws", cluster_name="demo", eks_control_plane=False, cluster_ca_bundle="Y2E="),
            "(--cluster-endpoint, CLUSTER_ENDPOINT); set it, or on EKS leave EKS_CONTROL_PLANE out",
        ),
        (
            Settings(provider="aws", cluster_name="demo", eks_control_plane=False, cluster_endpoint="https://a"),
            "its CA bundle (--cluster-ca-bundle, CLUSTER_CA_BUNDLE)",
        ),
        (
            Settings(
                provider="aws",
                cluster_name="demo",
                eks_control_plane=False,
                cluster_endpoint="https://a",
                cluster_ca_bundle="Y2E=",
                enable_zonal_shift=True,
            ),
            "leave ENABLE_ZONAL_SHIFT or EKS_CONTROL_PLANE out",
        ),
    ],
)
def test_what_is_missing_is_named_with_the_remedy(settings, remedy):
    with pytest.raises(ProviderUnusable, match=r"EC2|AWS|EKS") as caught:
        build_providers(None, Hands(), settings)
    assert remedy in str(caught.value)


def test_the_region_of_a_pod_is_enough(monkeypatch):
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    (aws,) = build_providers(None, Hands(), Settings(provider="aws", cluster_name="demo")).parts
    assert aws.supplier.name == "aws"
    assert aws.ports.node_classes is aws.supplier.parts.nodeclass_reconciler
    assert aws.supplier.parts.aws.region == "eu-west-1"


def test_aws_by_name_is_built_even_if_the_cluster_has_a_simulated_cloud(monkeypatch):
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    wanted = Settings(provider="aws", cluster_name="demo")
    (aws,) = build_providers(None, Hands(), wanted, cloud=object()).parts
    assert aws.supplier.name == "aws"


def test_refresh_intervals_and_the_ca_bundle_reach_the_parts_that_use_them(monkeypatch):
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    wanted = Settings(
        provider="aws",
        cluster_name="demo",
        cluster_ca_bundle="Y2E=",
        ami_refresh_interval=timedelta(minutes=7),
        subnet_refresh_interval=timedelta(minutes=9),
    )
    hands = Hands()
    (aws,) = build_providers(None, hands, wanted).parts
    parts = aws.supplier.parts
    resolvers, calls = parts.resolvers, Counter()

    async def call(*_, **__):
        return {"cluster": {"version": "1.31", "certificateAuthority": {"data": "b3duCg=="}}}

    async def collect(_service, operation, _field, **_):
        calls[operation] += 1
        return []

    monkeypatch.setattr(parts.aws, "call", call)
    monkeypatch.setattr(parts.aws, "collect", collect)

    async def story():
        assert (await resolvers.cluster.facts()).certificate_authority == "Y2E="
        spec = EC2NodeClassSpec(ami_selector_terms=(AMISelectorTerm(id="ami-1"),))
        for _ in range(10):  # ten minutes
            await resolvers.images.find(spec, "1.31")
            await resolvers.subnets.find((SubnetSelectorTerm(id="subnet-1"),))
            hands.pass_(minutes=1)

    asyncio.run(story())
    assert (calls["describe_images"], calls["describe_subnets"]) == (2, 2)


ALWAYS = ["StatusChecks", "EndingCapacityBlocks"]


@pytest.mark.parametrize(("queue", "sources"), [("", ALWAYS), ("demo", ["SqsQueue", *ALWAYS])])
def test_warnings_come_from_what_is_always_there_and_from_a_queue_if_one_is_named(monkeypatch, queue, sources):
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    wanted = Settings(provider="aws", cluster_name="demo", interruption_queue=queue)
    (aws,) = build_providers(None, Hands(), wanted).parts
    assert [type(each).__name__ for each in aws.ports.interruptions] == sources


def test_a_provider_that_cannot_run_is_left_out_with_the_cause_and_the_other_one_works(monkeypatch):
    built = build_providers(None, Hands(), Settings())
    assert [each.supplier.name for each in built.parts] == ["kwok"]
    (aws,) = built.unusable
    assert aws.supports(EC2)
    assert "--cluster-name (CLUSTER_NAME)" in aws.why
    assert "set AWS_REGION" in build_providers(None, Hands(), Settings(cluster_name="demo")).unusable[0].why
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    both = build_providers(None, Hands(), Settings(cluster_name="demo"))
    assert [each.supplier.name for each in both.parts] == ["kwok", "aws"]
    assert not both.unusable
    assert not any(each.ports.in_use.is_set() for each in both.parts)


@pytest.mark.parametrize(
    ("kinds", "refused"), [(["EC2"], True), (["EC2", "KWOK"], False), (["KWOK"], False), ([], False)]
)
def test_a_process_without_a_provider_for_any_of_its_nodepools_does_not_start(kinds, refused):
    refs = {"EC2": {"group": EC2.group, "kind": EC2.kind, "name": "x"}, "KWOK": {}}
    pools = [nodepool(kind, template={"nodeClassRef": refs[kind]} if refs[kind] else {}) for kind in kinds]
    with pytest.raises(ProviderUnusable, match="CLUSTER_NAME") if refused else nullcontext():
        require_usable(build_providers(None, Hands(), Settings()), pools)


def test_a_command_that_only_reads_needs_no_cluster_name_and_uses_the_region_of_the_kubeconfig(monkeypatch):
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    eks = EksContext("prod", "us-west-2")
    for written, name in (("", "prod"), ("own", "own")):
        _, aws = build_readers(None, Hands(), Settings(cluster_name=written), eks).parts
        assert aws.supplier.parts.aws.region == "us-west-2"
        assert aws.supplier.parts.settings.cluster_name == name
    _, aws = build_readers(None, Hands(), Settings(), NO_EKS).parts
    assert aws.supplier.parts.aws.region == "eu-west-1"


def test_a_profile_that_does_not_exist_is_an_error_that_names_it():
    (aws,) = build_readers(None, Hands(), Settings(), EksContext("prod", "", "nobody")).unusable
    assert "nobody" in aws.why


def test_credentials_of_the_environment_take_precedence_over_the_profile_of_the_kubeconfig(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    assert not build_readers(None, Hands(), Settings(), EksContext("prod", "us-west-2", "nobody")).unusable


def test_the_sdk_is_not_loaded_for_other_providers():
    code = "import sys, dovetail.wiring.live; print([name for name in sys.modules if 'boto' in name])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
