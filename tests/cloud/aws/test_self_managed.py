"""EKS_CONTROL_PLANE=false: settings and API server describe the cluster, and EKS is never called."""

from base64 import b64decode

from cloud.aws.claims import ON_DEMAND, asked_for, requests
from dovetail.model.conditions import find

SETTINGS = {
    "eks_control_plane": False,
    "cluster_endpoint": "https://api.example.com",
    "cluster_ca_bundle": "Y2E=",
}
FAMILY = {"amiSelectorTerms": [{"alias": "bottlerocket@latest"}]}


def eks_calls(account):
    return [each for each in account.proxy.asked if each.service == "eks" or "/clusters/" in each.operation]


def test_instances_are_launched_with_the_version_of_the_api_server_and_without_a_call_to_eks(live):
    async def story(account):
        for architecture in ("x86_64", "arm64"):
            path = f"/aws/service/bottlerocket/aws-k8s-{await account.world.server_version()}/{architecture}/latest"
            await account.new_image(f"{path}/image_id", architecture)
        await account.create(account.node_class(**FAMILY))
        await account.kept()
        assert find((await account.read()).status.conditions, "Ready").status == "True"
        await account.provider.launch(await asked_for(account, ON_DEMAND))
        for template in requests(account, "CreateLaunchTemplate"):
            user_data = b64decode(template["LaunchTemplateData.UserData"]).decode()
            assert 'api-server = "https://api.example.com"' in user_data
            assert 'cluster-certificate = "Y2E="' in user_data
        assert account.proxy.fleets.launched
        assert eks_calls(account) == []

    live(story, **SETTINGS)


def test_al2023_needs_what_only_eks_knows_and_says_so(live):
    async def story(account):
        terms = [{"id": image} for image in account.images.values()]
        await account.create(account.node_class(amiFamily="AL2023", amiSelectorTerms=terms))
        await account.kept()
        conditions = (await account.read()).status.conditions
        validated = find(conditions, "ValidationSucceeded")
        assert (validated.status, validated.reason) == ("False", "ClusterCIDRResolutionFailed")
        assert "the service CIDR" in validated.message
        assert find(conditions, "Ready").status == "False"
        assert eks_calls(account) == []

    live(story, **SETTINGS)


def test_on_eks_the_cluster_is_described_once(live):
    async def story(account):
        await account.create(account.node_class())
        await account.kept()
        await account.provider.launch(await asked_for(account, ON_DEMAND))
        assert len(eks_calls(account)) == 1

    live(story)
