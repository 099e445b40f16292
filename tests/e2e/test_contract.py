"""A real API server, spoken to by our client, keeps the contract of the `Cluster` port: the suite the world passes."""

import asyncio
import json
from datetime import UTC, datetime
from random import SystemRandom

import pytest

from contract.environment import Environment
from contract.suite import CASES, title
from dovetail.kube.cluster_access import connect
from dovetail.kube.requests import ApiRequest, error_of, read_status
from dovetail.manifest.crd import RESOURCES, crd_yaml
from e2e.controlplane.api import eventually
from e2e.controlplane.slate import wipe
from e2e.running import install_crds


class SystemClock:
    def now(self):
        return datetime.now(UTC)


class ApiServerEnvironment(Environment):
    can_expire_history = True

    def __init__(self, cluster, namespace, control_plane):
        super().__init__(cluster, namespace)
        self._control_plane = control_plane

    async def apply(self, plain):
        api = self._control_plane.api
        await asyncio.to_thread(lambda: api.post(collection(api, plain), plain).expect())

    async def submit(self, plain):
        api = self._control_plane.api
        path = collection(api, plain)
        reply = await asyncio.to_thread(api.post, f"{path}?dryRun=All", plain)
        if not reply.ok:
            raise error_of(
                ApiRequest(method="POST", path=path), read_status(json.dumps(reply.body).encode(), reply.status)
            )

    async def expire_history(self):
        self._control_plane.restart_apiserver()  # not in a thread: its child would die with the thread


def collection(api, plain):
    """Where objects of this kind are created, as the server itself says."""
    version = plain["apiVersion"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    resources = api.get(root).expect()["resources"]
    (kind,) = [each for each in resources if each["kind"] == plain["kind"] and "/" not in each["name"]]
    namespace = f"/namespaces/{plain['metadata']['namespace']}" if kind["namespaced"] else ""
    return f"{root}{namespace}/{kind['name']}"


@pytest.fixture(scope="module")
def server(control_plane):
    """The control plane with our CRDs, served."""
    wipe(control_plane.api)
    install_crds(control_plane)  # Karpenter's may be there
    documents = "---\n".join(crd_yaml(resource) for resource in RESOURCES)
    control_plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=documents)
    for resource in RESOURCES:
        path = f"/apis/{resource.kind.api_version}/{resource.kind.plural}"
        eventually(lambda path=path: control_plane.api.get(path).ok, f"{path} is served")
    return control_plane


@pytest.mark.parametrize("case", CASES, ids=title)
def test_api_server(server, namespace, case):
    async def story():
        async with await connect(server.kubeconfig, None, SystemClock(), SystemRandom()) as cluster:
            await case(ApiServerEnvironment(cluster, namespace, server))

    asyncio.run(story())
