"""Exec plugins: a real command, its input, its output, and how long its credential is valid."""

import asyncio
import json
import stat
import sys
from datetime import timedelta

import pytest

from builders import NOON, stamped
from dovetail.kube.credentials import VERSIONS, Credentials, ExecCredentialSource
from dovetail.kube.endpoint import Endpoint, Pem
from dovetail.model.kinds import NODE
from dovetail.model.kube_object import Key
from dovetail.ports.errors import Denied
from kube.stub import Clock, refusal, reply, serving


@pytest.fixture
def plugin(tmp_path):
    """Makes an executable from Python lines; `count` in its directory says how often it ran."""

    def make(*lines):
        script = tmp_path / "plugin"
        counting = [
            f"#!{sys.executable}",
            "import json, os, sys, pathlib, time",
            f"count = pathlib.Path({str(tmp_path / 'count')!r})",
            "runs = int(count.read_text()) + 1 if count.exists() else 1",
            "count.write_text(str(runs))",
            "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])",
            "def answer(version=None, **status):",
            "    said = {'apiVersion': version or info['apiVersion'], 'kind': 'ExecCredential', 'status': status}",
            "    print(json.dumps(said))",
        ]
        script.write_text("\n".join([*counting, *lines]) + "\n")
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        return str(script)

    return make


def runs(tmp_path):
    return int((tmp_path / "count").read_text())


def fetched(source):
    return asyncio.run(source.fetch(NOON))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_token_in_either_version(plugin, version):
    source = ExecCredentialSource(command=plugin("answer(token='abc')"), api_version=version)
    assert fetched(source).headers == (("Authorization", "Bearer abc"),)


def test_a_client_certificate(plugin):
    source = ExecCredentialSource(command=plugin("answer(clientCertificateData='CERT', clientKeyData='KEY')"))
    credential = fetched(source)
    assert (credential.certificate.certificate, credential.certificate.key) == (b"CERT", b"KEY")
    assert credential.headers == ()


def test_arguments_and_environment_reach_the_plugin(plugin):
    command = plugin("answer(token=sys.argv[1] + os.environ['REGION'])")
    assert (
        fetched(ExecCredentialSource(command=command, args=("id-",), env={"REGION": "eu"})).headers[0][1]
        == "Bearer id-eu"
    )


def test_cluster_info_is_passed_only_if_requested(plugin):
    cluster = Endpoint(server="https://k:6443", ca=Pem(data=b"CA"), tls_server_name="kube")
    command = plugin("answer(token=json.dumps(info))")

    def told(source):
        return json.loads(fetched(source).headers[0][1].removeprefix("Bearer "))

    assert told(ExecCredentialSource(command=command))["spec"] == {"interactive": False}
    assert told(ExecCredentialSource(command=command, cluster=cluster, cluster_config={"audience": "x"}))["spec"][
        "cluster"
    ] == {
        "server": "https://k:6443",
        "tls-server-name": "kube",
        "certificate-authority-data": "Q0E=",
        "config": {"audience": "x"},
    }


def test_the_answer_is_kept_until_it_expires(plugin, tmp_path):
    expires = stamped(NOON + timedelta(minutes=10))
    clock = Clock()
    credentials = Credentials(
        ExecCredentialSource(command=plugin(f"answer(token=f't{{runs}}', expirationTimestamp={expires!r})")), clock
    )

    async def main():
        first = await credentials.current()
        clock.at = NOON + timedelta(minutes=10) - timedelta(seconds=1)
        still = await credentials.current()
        clock.at = NOON + timedelta(minutes=10)
        return first, still, await credentials.current()

    first, still, later = asyncio.run(main())
    assert first is still
    assert [first.headers[0][1], later.headers[0][1]] == ["Bearer t1", "Bearer t2"]
    assert runs(tmp_path) == 2


def test_an_answer_without_an_end_is_kept(plugin, tmp_path):
    clock = Clock()
    credentials = Credentials(ExecCredentialSource(command=plugin("answer(token='t')")), clock)

    async def main():
        await credentials.current()
        clock.at = NOON + timedelta(days=30)
        await credentials.current()

    asyncio.run(main())
    assert runs(tmp_path) == 1


def test_many_calls_at_once_run_it_once(plugin, tmp_path):
    credentials = Credentials(ExecCredentialSource(command=plugin("answer(token='t')")), Clock())

    async def main():
        await asyncio.gather(*(credentials.current() for _ in range(5)))

    asyncio.run(main())
    assert runs(tmp_path) == 1


def test_a_caller_out_of_time_does_not_end_it_for_the_next(plugin, tmp_path):
    go = tmp_path / "go"
    command = plugin(f"while not os.path.exists({str(go)!r}): time.sleep(0.01)", "answer(token='slow')")
    credentials = Credentials(ExecCredentialSource(command=command), Clock())

    async def main():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(credentials.current(), 0.05)
        go.touch()
        return await credentials.current()

    assert asyncio.run(main()).headers[0][1] == "Bearer slow"
    assert runs(tmp_path) == 1


def test_closing_ends_it(plugin):
    credentials = Credentials(ExecCredentialSource(command=plugin("time.sleep(600)")), Clock())

    async def main():
        waiting = asyncio.create_task(credentials.current())
        await asyncio.sleep(0)
        await credentials.aclose()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(main())


def test_it_is_run_again_when_the_server_refuses_its_token(plugin):
    async def main():
        source = ExecCredentialSource(command=plugin("answer(token=f't{runs}')"))
        async with serving(refusal(401, "Unauthorized"), reply({}), source=source) as (cluster, stub):
            await cluster.get(NODE, Key("", "n"))
            return [request.headers["Authorization"] for request in stub.seen]

    assert asyncio.run(main()) == ["Bearer t1", "Bearer t2"]


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (["sys.exit('please log in')"], "failed with exit code 1: please log in"),
        (["print('hello')"], "did not print an ExecCredential"),
        (["answer('client.authentication.k8s.io/v1alpha1', token='t')"], "requires client.authentication.k8s.io/v1 "),
        (["answer()"], "neither a token nor a client certificate"),
        (["answer(clientCertificateData='CERT')"], "only one of"),
    ],
)
def test_invalid_plugin_output_is_denied_with_the_reason(plugin, lines, problem):
    with pytest.raises(Denied) as caught:
        fetched(ExecCredentialSource(command=plugin(*lines)))
    assert problem in str(caught.value)


def test_a_plugin_that_hangs_is_ended(plugin):
    source = ExecCredentialSource(command=plugin("time.sleep(600)"), timeout=timedelta(milliseconds=50))
    with pytest.raises(Denied, match="did not finish within"):
        fetched(source)


def test_a_plugin_that_is_not_installed_shows_how_to_get_it():
    with pytest.raises(Denied) as caught:
        fetched(ExecCredentialSource(command="no-such-plugin-anywhere", install_hint="Get it from https://example.com"))
    assert "'no-such-plugin-anywhere' cannot be run" in str(caught.value)
    assert "Get it from https://example.com" in str(caught.value)
