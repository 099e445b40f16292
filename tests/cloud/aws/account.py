"""An AWS account behind the proxy with a cluster, and a provider for it, shared by the AWS tests."""

import asyncio
import itertools
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec
from aiobotocore.session import get_session

from cloud.aws.iam_checks import IamGuard
from cloud.aws.iam_policy import KARPENTER_POLICY, read_policy
from cloud.aws.permissions import DEPLOY
from cloud.aws.proxy import OWNER, Proxy, proxied
from dovetail.cloud.aws.clients import AwsClients
from dovetail.cloud.aws.provider import AwsParts, AwsProvider, assemble_aws
from dovetail.manifest.codec import decode_hook
from dovetail.model.ec2nodeclass import EC2NodeClass
from dovetail.model.kinds import EC2_NODE_CLASS
from dovetail.model.kube_object import Key
from dovetail.settings import Settings
from dovetail.sim.world import World
from dovetail.wiring.embedded import admit

REGION = "us-east-1"
VERSION = "1.31"
NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
_NUMBERS = itertools.count(1)
_LOADER = []


class Hands:
    """A clock that is set by hand."""

    def __init__(self, now=NOON):
        self._now = now

    def now(self):
        return self._now

    def pass_(self, **span):
        self._now += timedelta(**span)


@dataclass
class Account:
    """The resources of one cluster, tagged with its name."""

    proxy: Proxy
    clock: Hands
    world: World
    provider: AwsProvider
    aws: AwsClients
    """The clients of the owner of the account, who has all permissions."""
    name: str
    images: dict[str, str]
    subnets: list[str]
    group: str

    @property
    def parts(self) -> AwsParts:
        return self.provider.parts

    @property
    def role(self) -> str:
        """The role of the nodes, under the name that the policies allow to pass."""
        return f"KarpenterNodeRole-{self.name}"

    @property
    def tags(self):
        return {"karpenter.sh/discovery": self.name}

    async def add_role(self, name):
        """Create another role for nodes, and allow to pass it, as an operator has to."""
        await self.aws.call("iam", "create_role", RoleName=name, AssumeRolePolicyDocument="{}")
        self.proxy.guard.allow_to_pass(name)

    def node_class(self, version="v1", **spec):
        """A class that selects the resources of the account; None removes a field."""
        terms = [{"tags": self.tags}]
        usual = {"subnetSelectorTerms": terms, "securityGroupSelectorTerms": terms, "role": self.role}
        usual |= {"amiSelectorTerms": [{"alias": "al2023@latest"}]} if version == "v1" else {"amiFamily": "AL2023"}
        return {
            "apiVersion": f"karpenter.k8s.aws/{version}",
            "kind": "EC2NodeClass",
            "metadata": {"name": "default"},
            "spec": {name: value for name, value in (usual | spec).items() if value is not None},
        }

    async def create(self, document) -> EC2NodeClass:
        """The class from the API server."""
        value = msgspec.convert(admit(None, None, document), EC2NodeClass, dec_hook=decode_hook)
        return await self.world.create(EC2_NODE_CLASS, value)

    async def read(self, name="default") -> EC2NodeClass:
        return await self.world.get(EC2_NODE_CLASS, Key("", name))

    async def kept(self, claims=(), name="default"):
        """Reconcile the class once, as the controller does."""
        return await self.parts.nodeclass_reconciler.keep(await self.read(name), claims)

    async def new_image(self, parameter: str, architecture: str) -> str:
        """Register an image and publish it under the parameter."""
        number = next(_NUMBERS)
        given = {"Name": f"{self.name}-image-{number}", "Architecture": architecture, "RootDeviceName": "/dev/xvda"}
        made = await self.aws.call("ec2", "register_image", **given)
        self.proxy.parameters[parameter] = made["ImageId"]
        self.proxy.architectures[made["ImageId"]] = architecture
        return made["ImageId"]


def parameter(architecture: str, variant: str = "standard") -> str:
    """Where EKS publishes the newest AL2023 image."""
    return f"/aws/service/eks/optimized-ami/{VERSION}/amazon-linux-2023/{architecture}/{variant}/recommended/image_id"


def living(story, moto, monkeypatch, **settings):
    """Run a scenario on a separate account behind a separate proxy."""

    async def main():
        async with opened(moto, monkeypatch, **settings) as account:
            return await story(account)

    return asyncio.run(main())


@asynccontextmanager
async def opened(moto, monkeypatch, **settings):
    """An account with a cluster, two subnets, a security group, a role and two images."""
    name = f"demo-{next(_NUMBERS)}"
    async with proxied(moto) as proxy:
        for variable, value in (
            ("AWS_ENDPOINT_URL", proxy.address),
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
            ("AWS_REGION", REGION),
            ("AWS_MAX_ATTEMPTS", "1"),  # a retry would wait on the wall clock
            ("AWS_EC2_METADATA_DISABLED", "true"),
        ):
            monkeypatch.setenv(variable, value)
        monkeypatch.delenv("AWS_PROFILE", raising=False)
        clock = Hands()
        world = World(clock=clock)
        usual = {"disable_dry_run": True}  # so that what is counted is what the story is about
        wanted = Settings(provider="aws", cluster_name=name, **(usual | settings))
        provider = AwsProvider(assemble_aws(world, clock, wanted, AwsClients(_session())))
        owner = AwsClients(_session(OWNER))
        account = Account(proxy, clock, world, provider, owner, name, {}, [], "")
        try:
            proxy.guard = iam_guard(name)
            await _furnish(account)
            proxy.calls.clear()
            proxy.asked.clear()
            yield account
            assert proxy.guard.denied == []
        finally:
            await provider.aclose()
            await owner.aclose()


def iam_guard(name: str) -> IamGuard:
    """Checks calls against Karpenter's policy and against the one in `deploy/aws`."""
    paths = {"Karpenter": KARPENTER_POLICY, "deploy/aws": DEPLOY / "policy.json"}
    return IamGuard({policy: read_policy(path, name, REGION) for policy, path in paths.items()})


def _session(access_key=""):
    """A separate session; data that the SDK reads from disk is shared."""
    session = get_session()
    if access_key:
        session.set_credentials(access_key, "test")
    if not _LOADER:
        _LOADER.append(session.get_component("data_loader"))
    session.register_component("data_loader", _LOADER[0])
    return session


async def _furnish(account: Account) -> None:
    aws, tags = account.aws, [{"Key": key, "Value": value} for key, value in account.tags.items()]
    vpc = (await aws.call("ec2", "create_vpc", CidrBlock="10.0.0.0/16"))["Vpc"]["VpcId"]
    for number, zone in enumerate(("a", "b")):
        given = {"VpcId": vpc, "CidrBlock": f"10.0.{number}.0/24", "AvailabilityZone": f"{REGION}{zone}"}
        made = await aws.call(
            "ec2", "create_subnet", TagSpecifications=[{"ResourceType": "subnet", "Tags": tags}], **given
        )
        account.subnets.append(made["Subnet"]["SubnetId"])
    group = {"GroupName": f"{account.name}-nodes", "Description": "nodes", "VpcId": vpc}
    listed = [{"ResourceType": "security-group", "Tags": tags}]
    account.group = (await aws.call("ec2", "create_security_group", TagSpecifications=listed, **group))["GroupId"]
    await aws.call("iam", "create_role", RoleName=account.role, AssumeRolePolicyDocument="{}")
    network = {"subnetIds": account.subnets}
    role = "arn:aws:iam::123456789012:role/eks"
    await aws.call(
        "eks", "create_cluster", name=account.name, version=VERSION, roleArn=role, resourcesVpcConfig=network
    )
    for architecture in ("x86_64", "arm64"):
        account.images[architecture] = await account.new_image(parameter(architecture), architecture)
