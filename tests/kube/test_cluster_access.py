"""Kubeconfig files: merged, selected from, read, or rejected with every fault."""

import asyncio
from base64 import b64encode

import pytest
import yaml

from builders import NOON
from dovetail.kube.cluster_access import find_access, in_cluster
from dovetail.kube.credentials import ExecCredentialSource
from dovetail.kube.endpoint import AccessFault, Endpoint
from dovetail.kube.kubeconfig import EksContext


def config(cluster=None, user=None, name="here", current="here", **more):
    return {
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}:6443", **(cluster or {})}}],
        "users": [{"name": name, "user": user or {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "ops"}}],
        "current-context": current,
        **more,
    }


def write(path, content):
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


@pytest.fixture
def access(tmp_path):
    """The access from one file."""

    def read(content, context=None):
        return find_access(write(tmp_path / "config", content), context, {})

    return read


def headers(access):
    return dict(asyncio.run(access.source.fetch(NOON)).headers)


def test_a_context_is_a_server_a_user_and_a_namespace(access):
    found = access(config(user={"token": "t"}))
    assert found.endpoint == Endpoint(server="https://here:6443")
    assert headers(found) == {"Authorization": "Bearer t"}
    assert (found.shown, found.namespace) == ("here", "ops")


def test_several_files_are_merged_and_the_first_to_say_something_wins(tmp_path):
    one = write(tmp_path / "one", config(user={"token": "one"}, name="a", current=""))
    two = config(user={"token": "two"}, name="b", current="b")
    two["users"].append({"name": "a", "user": {"token": "late"}})
    environ = {"KUBECONFIG": f"{one}::{tmp_path / 'missing'}:{write(tmp_path / 'two', two)}"}
    assert headers(find_access(None, None, environ)) == {"Authorization": "Bearer two"}
    assert headers(find_access(None, "a", environ)) == {"Authorization": "Bearer one"}


def test_the_explicit_file_takes_precedence_over_the_environment(tmp_path):
    asked = write(tmp_path / "asked", config(name="asked", current="asked"))
    other = write(tmp_path / "other", config(name="other", current="other"))
    assert find_access(asked, None, {"KUBECONFIG": str(other)}).shown == "asked"


def test_the_file_in_the_home_directory_comes_last(tmp_path):
    (tmp_path / ".kube").mkdir()
    write(tmp_path / ".kube" / "config", config(name="home", current="home"))
    assert find_access(None, None, {"HOME": str(tmp_path)}).shown == "home"


def test_paths_are_relative_to_the_file_they_stand_in(tmp_path):
    for name in ("ca.crt", "me.crt", "me.key", "token"):
        (tmp_path / name).write_text(name)
    user = {"client-certificate": "me.crt", "client-key": "./me.key", "tokenFile": "token"}
    found = find_access(write(tmp_path / "config", config({"certificate-authority": "ca.crt"}, user)), None, {})
    credential = asyncio.run(found.source.fetch(NOON))
    assert found.endpoint.ca.read() == b"ca.crt"
    assert found.endpoint.ca_bundle == "Y2EuY3J0"  # base64
    assert (credential.certificate.certificate, credential.certificate.key) == (b"me.crt", b"me.key")
    assert dict(credential.headers) == {"Authorization": "Bearer token"}


def test_embedded_data_wins_over_a_file(access):
    def data(text):
        return b64encode(text).decode()

    cluster = {"certificate-authority-data": data(b"CA"), "certificate-authority": "/nowhere"}
    user = {"client-certificate-data": data(b"CERT"), "client-key-data": data(b"KEY")}
    found = access(config(cluster, user))
    assert found.endpoint.ca.read() == b"CA"
    assert asyncio.run(found.source.fetch(NOON)).certificate.key == b"KEY"


def test_the_ways_of_a_connection_are_kept(access):
    found = access(
        config({"insecure-skip-tls-verify": True, "tls-server-name": "kube", "proxy-url": "http://proxy:3128"})
    )
    assert (found.endpoint.insecure, found.endpoint.tls_server_name) == (True, "kube")
    assert found.endpoint.proxy_url == "http://proxy:3128"


def test_a_proxy_of_the_environment_is_not_used_for_loopback(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", "inside.example")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("https_proxy", raising=False)
    assert Endpoint(server="https://outside.example:6443").proxy_url == "http://proxy:3128"
    assert Endpoint(server="https://inside.example:6443").proxy_url is None
    assert Endpoint(server="https://127.0.0.1:6443").proxy_url is None


def test_a_server_may_lie_under_a_path(access):
    assert (
        access(config({"server": "https://host/k8s/clusters/c-1/"})).endpoint.server == "https://host/k8s/clusters/c-1"
    )


def test_user_name_and_password(access):
    assert headers(access(config(user={"username": "me", "password": "pw"}))) == {"Authorization": "Basic bWU6cHc="}


def test_impersonation_is_honoured(access):
    user = {"token": "t", "as": "jane", "as-groups": ["a", "b"], "as-uid": "7", "as-user-extra": {"why": ["test"]}}
    assert asyncio.run(access(config(user=user)).source.fetch(NOON)).headers[1:] == (
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-why", "test"),
    )


def test_an_exec_plugin_is_understood(access, tmp_path):
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "./bin/plugin",
        "args": ["get-token"],
        "env": [{"name": "PROFILE", "value": "ops"}],
        "installHint": "get it",
        "provideClusterInfo": True,
        "interactiveMode": "IfAvailable",
    }
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}
    found = access(config({"extensions": [extension]}, {"exec": plugin}))
    assert found.source == ExecCredentialSource(
        command=str(tmp_path / "bin/plugin"),
        args=("get-token",),
        env={"PROFILE": "ops"},
        api_version="client.authentication.k8s.io/v1beta1",
        install_hint="get it",
        cluster=found.endpoint,
        cluster_config={"audience": "x"},
    )


def test_a_plugin_named_without_a_path_is_looked_up_later(access):
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "aws", "env": None, "args": None}
    source = access(config(user={"exec": plugin})).source
    assert (source.command, source.cluster) == ("aws", None)


def refusal_of(read, *args):
    with pytest.raises(AccessFault) as caught:
        read(*args)
    return str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    message = refusal_of(find_access, tmp_path / "nope", None, {})
    assert f"{tmp_path / 'nope'}: no such file" in message
    assert "--kubeconfig" in message


def test_a_list_of_nothing_but_missing_files_is_refused(tmp_path):
    assert "no such file" in refusal_of(find_access, None, None, {"KUBECONFIG": f"{tmp_path}/a:{tmp_path}/b"})


def test_nothing_at_all_is_refused(tmp_path):
    assert "no kubeconfig" in refusal_of(find_access, None, None, {"HOME": str(tmp_path)})


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("a: [", "is not YAML"),
        ("- a list", "is not a kubeconfig"),
        (
            {"users": [{"name": "u", "user": {"token": 12345}}]},
            "users[0].user.token must be text, not a whole number",
        ),
        ("", "current-context is not set"),
    ],
)
def test_a_file_that_is_no_kubeconfig_is_refused(access, tmp_path, content, problem):
    message = refusal_of(access, content)
    assert problem in message
    assert str(tmp_path / "config") in message


def test_an_unknown_context_is_refused_with_those_there_are(access):
    message = refusal_of(access, config(), "there")
    assert "there is no context 'there'" in message
    assert "(available: here)" in message


def test_all_missing_references_of_a_context_are_reported_together(access):
    message = refusal_of(access, config(contexts=[{"name": "here", "context": {"cluster": "x", "user": "nobody"}}]))
    assert "contexts[here].cluster: there is no cluster of that name (got 'x'); name one of: here" in message
    assert "contexts[here].user: there is no user of that name (got 'nobody'); name one of: here" in message


EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "plugin"}


@pytest.mark.parametrize(
    ("cluster", "user", "problem"),
    [
        ({"server": ""}, {}, "clusters[here].server: is not the URL of an API server"),
        ({"server": "kube:6443"}, {}, "write https://host:port"),
        ({"certificate-authority": "nope.crt"}, {}, "clusters[here].certificate-authority: no such file"),
        ({"certificate-authority-data": "%%%"}, {}, "certificate-authority-data: is not base64"),
        ({"proxy-url": "socks5://proxy:1080"}, {}, "only http and https proxies"),
        (
            {"certificate-authority-data": "Q0E=", "insecure-skip-tls-verify": True},
            {},
            "contradicts the certificate authority",
        ),
        ({}, {"client-certificate-data": "Q0E="}, "certificate and key belong together"),
        ({}, {"tokenFile": "nope"}, "users[here].tokenFile: no such file"),
        ({}, {"token": "t", "username": "u"}, "keep one way to authenticate"),
        ({}, {"auth-provider": {"name": "gcp"}}, "'gcp' was removed from Kubernetes; use the exec plugin"),
        ({}, {"exec": {**EXEC, "command": ""}}, "exec.command: is missing"),
        (
            {},
            {"exec": {**EXEC, "apiVersion": "client.authentication.k8s.io/v1alpha1"}},
            "exec.apiVersion: is not supported",
        ),
        ({}, {"exec": {**EXEC, "interactiveMode": "Always"}}, "needs a terminal"),
        ({}, {"exec": EXEC, "client-certificate-data": "Q0E=", "client-key-data": "Q0E="}, "exec: is set together"),
    ],
)
def test_faults_of_an_entry_name_file_context_place_and_remedy(access, tmp_path, cluster, user, problem):
    message = refusal_of(access, config(cluster, user))
    assert problem in message
    assert f"kubeconfig {tmp_path / 'config'}, context 'here'" in message


@pytest.fixture
def service_account(tmp_path):
    for name, text in {"token": "sa-token", "ca.crt": "CA", "namespace": "ops\n"}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("host", "server"), [("10.0.0.1", "https://10.0.0.1:6443"), ("fd00::1", "https://[fd00::1]:6443")]
)
def test_a_pod_knows_its_cluster(service_account, host, server):
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "6443"}
    found = in_cluster(environ, service_account)
    assert found.endpoint.server == server
    assert headers(found) == {"Authorization": "Bearer sa-token"}
    assert (found.shown, found.namespace) == ("in-cluster", "ops")


def test_a_pod_without_its_token_gets_an_error_with_the_file(service_account):
    (service_account / "token").unlink()
    message = refusal_of(in_cluster, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, service_account)
    assert str(service_account / "token") in message


def test_a_pod_is_preferred_to_the_home_directory_but_not_to_an_explicit_file(tmp_path):
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "HOME": str(tmp_path)}
    (tmp_path / ".kube").mkdir()
    write(tmp_path / ".kube" / "config", config(name="home", current="home"))
    asked = write(tmp_path / "asked", config(name="asked", current="asked"))
    assert "serviceaccount/token" in refusal_of(find_access, None, None, environ)
    assert find_access(asked, None, environ).shown == "asked"
    assert find_access(None, "home", environ).shown == "home"


AWS_CLI = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "aws"}
AUTHENTICATOR = {**AWS_CLI, "command": "aws-iam-authenticator"}
GET_TOKEN = ["--region", "eu-west-1", "eks", "get-token", "--cluster-name", "prod", "--output", "json"]
ARN = "arn:aws:eks:us-east-2:111122223333:cluster/prod"
HOST = "https://0A1B.gr7.ap-south-1.eks.amazonaws.com"


@pytest.mark.parametrize(
    ("plugin", "name", "server", "expected"),
    [
        ({**AWS_CLI, "args": GET_TOKEN}, "here", "https://x", EksContext("prod", "eu-west-1")),
        (
            {**AWS_CLI, "args": ["--cluster-name=prod", "--region=eu-west-1"]},
            ARN,
            HOST,
            EksContext("prod", "eu-west-1"),
        ),
        ({**AUTHENTICATOR, "args": ["token", "-i", "prod"]}, "here", HOST, EksContext("prod", "ap-south-1")),
        (
            {**AWS_CLI, "args": GET_TOKEN, "env": [{"name": "AWS_PROFILE", "value": "ops"}]},
            "here",
            "https://x",
            EksContext("prod", "eu-west-1", "ops"),
        ),
        (None, ARN, "https://x", EksContext("prod", "us-east-2")),
        (None, "here", HOST, EksContext("", "ap-south-1")),
        ({**AWS_CLI, "args": ["--cluster-name"]}, "here", "https://x", EksContext()),
        ({**AWS_CLI, "command": "gke", "args": GET_TOKEN}, "here", "https://x", EksContext()),
        (None, "here", "https://x", EksContext()),
    ],
)
def test_the_kubeconfig_of_an_eks_cluster_names_the_cluster_its_region_and_the_profile(
    access, plugin, name, server, expected
):
    user = {"exec": plugin} if plugin else {"token": "t"}
    assert access(config(cluster={"server": server}, user=user, name=name, current=name)).eks == expected
