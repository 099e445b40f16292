"""Our client on a real API server: every way to say who we are, lists longer than a page, watches that break."""

import asyncio
import contextlib
import json
import stat
import sys
from base64 import b64encode
from datetime import UTC, datetime
from pathlib import Path
from random import SystemRandom
from urllib.parse import urlsplit

import pytest

from dovetail.kube.cluster_access import connect, in_cluster, open_cluster
from dovetail.kube.credentials import VERSIONS
from dovetail.kube.transport import TransportLimits
from dovetail.model.cluster_objects import Lease, LeaseSpec
from dovetail.model.kinds import LEASE, NAMESPACE, NODE, POD
from dovetail.model.kube_object import Key, ObjectMeta
from dovetail.ports.cluster import ListOptions, Patch
from dovetail.ports.errors import Denied, Gone, Unavailable
from e2e.controlplane.kubeconfig import write_kubeconfig


class SystemClock:
    def now(self):
        return datetime.now(UTC)


def call(kubeconfig, work, limits=TransportLimits()):  # noqa: B008 - frozen
    """Do one thing with a client of this kubeconfig."""

    async def main():
        async with await connect(kubeconfig, None, SystemClock(), SystemRandom(), limits) as cluster:
            return await work(cluster)

    return asyncio.run(main())


def namespaces(cluster):
    return cluster.list(NAMESPACE)


def names(listing):
    return {item.name for item in listing.items}


def test_a_token(control_plane):
    assert "kube-system" in names(call(control_plane.kubeconfig, namespaces))


def test_a_client_certificate_from_files(control_plane):
    assert "kube-system" in names(call(control_plane.client_cert_kubeconfig, namespaces))


def test_a_client_certificate_as_data(control_plane, tmp_path):
    files = json.loads(control_plane.client_cert_kubeconfig.read_text())["users"][0]["user"]
    user = {f"{name}-data": encoded(path) for name, path in files.items()}
    kubeconfig = write_kubeconfig(tmp_path / "config", control_plane.url, control_plane.ca_file, user)
    assert "kube-system" in names(call(kubeconfig, namespaces))


def encoded(path):
    return b64encode(Path(path).read_bytes()).decode()


def test_a_wrong_token_is_denied(control_plane, tmp_path):
    kubeconfig = write_kubeconfig(tmp_path / "config", control_plane.url, control_plane.ca_file, {"token": "nobody's"})
    with pytest.raises(Denied, match="Unauthorized"):
        call(kubeconfig, namespaces)


def exec_kubeconfig(control_plane, directory, version, *status):
    """A kubeconfig whose plugin prints these credentials in turn, and the last of them from then on."""
    script = directory / "plugin"
    lines = [
        f"#!{sys.executable}",
        "import json, os, pathlib",
        f"answers = json.loads({json.dumps(status)!r})",
        f"count = pathlib.Path({str(directory / 'count')!r})",
        "runs = int(count.read_text()) if count.exists() else 0",
        "count.write_text(str(runs + 1))",
        "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])",
        "assert info['spec']['cluster']['server']",
        "status = answers[min(runs, len(answers) - 1)]",
        "print(json.dumps({'apiVersion': info['apiVersion'], 'kind': 'ExecCredential', 'status': status}))",
    ]
    script.write_text("\n".join(lines) + "\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    plugin = {"apiVersion": version, "command": "./plugin", "interactiveMode": "Never", "provideClusterInfo": True}
    return write_kubeconfig(directory / "config", control_plane.url, control_plane.ca_file, {"exec": plugin})


@pytest.mark.parametrize("version", VERSIONS)
def test_an_exec_plugin_with_a_token(control_plane, tmp_path, version):
    kubeconfig = exec_kubeconfig(control_plane, tmp_path, version, {"token": control_plane.token})
    assert "kube-system" in names(call(kubeconfig, namespaces))


def test_an_exec_plugin_with_a_client_certificate(control_plane, tmp_path):
    files = json.loads(control_plane.client_cert_kubeconfig.read_text())["users"][0]["user"]
    certificate, key = (Path(files[name]).read_text() for name in ("client-certificate", "client-key"))
    status = {"clientCertificateData": certificate, "clientKeyData": key}
    assert "kube-system" in names(call(exec_kubeconfig(control_plane, tmp_path, VERSIONS[0], status), namespaces))


def test_an_exec_plugin_is_asked_again_when_its_token_is_refused(control_plane, tmp_path):
    answers = {"token": "revoked", "expirationTimestamp": "2100-01-01T00:00:00Z"}, {"token": control_plane.token}
    kubeconfig = exec_kubeconfig(control_plane, tmp_path, VERSIONS[0], *answers)

    async def twice(cluster):
        await cluster.list(NAMESPACE)
        return await cluster.list(NAMESPACE)

    assert "kube-system" in names(call(kubeconfig, twice))
    assert (tmp_path / "count").read_text() == "2"


@pytest.fixture
def mounted(control_plane, tmp_path):
    """What a pod finds mounted: the token of a service account that may do nothing yet, and the CA."""
    (tmp_path / "token").write_text(control_plane.service_account_token("default", "pod-like"))
    (tmp_path / "ca.crt").write_bytes(control_plane.ca_file.read_bytes())
    (tmp_path / "namespace").write_text("default")
    return tmp_path


def test_a_pod_uses_its_service_account_and_what_it_was_granted(control_plane, mounted):
    parts = urlsplit(control_plane.url)
    environ = {"KUBERNETES_SERVICE_HOST": parts.hostname, "KUBERNETES_SERVICE_PORT": str(parts.port)}
    rules = "/apis/rbac.authorization.k8s.io/v1"

    def grant():
        role = {
            "metadata": {"name": "read-nodes"},
            "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}],
        }
        subject = {"kind": "ServiceAccount", "name": "pod-like", "namespace": "default"}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "read-nodes"}
        binding = {"metadata": {"name": "read-nodes"}, "subjects": [subject], "roleRef": reference}
        control_plane.api.post(f"{rules}/clusterroles", role).expect()
        control_plane.api.post(f"{rules}/clusterrolebindings", binding).expect()

    async def main():
        access = in_cluster(environ, mounted)
        async with await open_cluster(access, SystemClock(), SystemRandom()) as cluster:
            with pytest.raises(Denied, match="system:serviceaccount:default:pod-like"):
                await cluster.list(NODE)
            grant()
            for _ in range(100):  # RBAC is read from the server's own cache
                try:
                    return await cluster.list(NODE)
                except Denied:
                    await asyncio.sleep(0.05)
            raise AssertionError("still denied")

    try:
        assert asyncio.run(main()).resource_version
    finally:
        control_plane.api.delete(f"{rules}/clusterrolebindings/read-nodes")
        control_plane.api.delete(f"{rules}/clusterroles/read-nodes")


def lease(namespace, name):
    return Lease(metadata=ObjectMeta(name=name, namespace=namespace), spec=LeaseSpec(lease_duration_seconds=10))


def test_a_list_longer_than_a_page_is_whole(control_plane, namespace):
    count = 1203

    async def story(cluster):
        made = await asyncio.gather(*(cluster.create(LEASE, lease(namespace, f"l-{n}")) for n in range(count)))
        listing = await cluster.list(LEASE, ListOptions(namespace=namespace))
        return {item.name for item in made}, listing

    made, listing = call(control_plane.kubeconfig, story)
    assert len(listing.items) == count
    assert names(listing) == made
    assert int(listing.resource_version) >= max(int(item.metadata.resource_version) for item in listing.items)


def test_a_watch_ended_by_the_server_is_resumed_without_loss(control_plane, namespace):
    """Each watch lives for a second; what happens between two of them is seen by the next."""
    options = ListOptions(namespace=namespace)

    async def story(cluster):
        since = (await cluster.list(LEASE, options)).resource_version
        seen = []
        for step in (
            lambda: cluster.create(LEASE, lease(namespace, "a")),
            lambda: cluster.create(LEASE, lease(namespace, "b")),
            lambda: cluster.delete(LEASE, Key(namespace, "a")),
        ):
            await step()
            async for change in cluster.watch(LEASE, since, options):
                since = change.resource_version
                if change.type != "BOOKMARK":
                    seen.append((change.type, change.object.name))
        return seen

    seen = call(control_plane.kubeconfig, story, TransportLimits(watch_seconds=(1, 1)))
    assert seen == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a")]


def test_a_restart_of_the_server_breaks_the_watch_and_makes_the_past_gone(control_plane, namespace):
    options = ListOptions(namespace=namespace)

    async def story(cluster):
        listing = await cluster.list(LEASE, options)
        for name in ("a", "b"):
            await cluster.create(LEASE, lease(namespace, name))
        watch = cluster.watch(LEASE, listing.resource_version, options)
        await anext(watch)
        control_plane.restart_apiserver()
        with contextlib.suppress(Unavailable):
            async for _ in watch:
                pass
        with pytest.raises(Gone):
            await anext(cluster.watch(LEASE, listing.resource_version, options))
        return await cluster.list(LEASE, options)

    assert names(call(control_plane.kubeconfig, story)) == {"a", "b"}


def test_a_server_that_is_down_is_unavailable_even_for_writes(control_plane, namespace):
    async def story(cluster):
        with pytest.raises(Unavailable):
            await cluster.patch(LEASE, Key(namespace, "a"), Patch({"spec": {"holderIdentity": "me"}}))

    control_plane.stop_component("kube-apiserver")
    try:
        call(control_plane.kubeconfig, story)
    finally:
        control_plane.restart_apiserver()


def test_what_the_server_says_of_a_real_pod_can_be_read(control_plane, namespace):
    pod = {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "main", "image": "app"}]}}
    control_plane.api.post(f"/api/v1/namespaces/{namespace}/pods", pod).expect()
    found = call(control_plane.kubeconfig, lambda cluster: cluster.get(POD, Key(namespace, "web")))
    assert found.spec.containers[0].name == "main"
    assert {toleration.key for toleration in found.spec.tolerations} >= {"node.kubernetes.io/not-ready"}
