"""Startup errors of the aws provider, which is loaded only if selected."""

import subprocess
import sys

import pytest

from cloud.aws.account import Hands
from dovetail.settings import Settings
from dovetail.wiring.providers import ProviderUnusable, build_provider

CLOUDLESS = """
import sys
sys.modules["aiobotocore"] = None
import dovetail.wiring.providers as wiring
from dovetail.settings import Settings
try:
    wiring.build_provider(None, None, Settings(provider="aws", cluster_name="demo"))
except wiring.ProviderUnusable as error:
    print(error)
"""


@pytest.fixture(autouse=True)
def nowhere(monkeypatch):
    """No region, no profile."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")


def test_without_the_extra_the_error_has_the_remedy():
    printed = subprocess.run([sys.executable, "-c", CLOUDLESS], capture_output=True, text=True, check=True)
    assert "pip install dovetail[aws]" in printed.stdout


@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        (Settings(provider="aws"), "--cluster-name (CLUSTER_NAME)"),
        (Settings(provider="aws", cluster_name="demo"), "set AWS_REGION"),
    ],
)
def test_what_is_missing_is_named_with_the_remedy(settings, remedy):
    with pytest.raises(ProviderUnusable, match=r"aws|AWS") as caught:
        build_provider(None, Hands(), settings)
    assert remedy in str(caught.value)


def test_the_region_of_a_pod_is_enough(monkeypatch):
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    supply = build_provider(None, Hands(), Settings(provider="aws", cluster_name="demo"))
    assert supply.supplier.name == "aws"
    assert supply.nodeclass_reconciler is supply.supplier.parts.nodeclass_reconciler
    assert supply.supplier.parts.aws.region == "eu-west-1"


ALWAYS = ["StatusChecks", "EndingCapacityBlocks"]


@pytest.mark.parametrize(("queue", "sources"), [("", ALWAYS), ("demo", ["SqsQueue", *ALWAYS])])
def test_warnings_come_from_what_is_always_there_and_from_a_queue_if_one_is_named(monkeypatch, queue, sources):
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    wanted = Settings(provider="aws", cluster_name="demo", interruption_queue=queue)
    assert [type(each).__name__ for each in build_provider(None, Hands(), wanted).interruptions] == sources


def test_the_sdk_is_not_loaded_for_other_providers():
    code = "import sys, dovetail.wiring.live; print([name for name in sys.modules if 'boto' in name])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
