"""`dovetail run` when it cannot start: one line that says why and what to do, and exit code 2."""

import asyncio
import json
import logging
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import yaml
from typer.testing import CliRunner

from dovetail.cli.app import app
from dovetail.cli.run import _log_missing_fields
from dovetail.manifest.codec import from_plain
from dovetail.manifest.schema import Scope, schema_of
from dovetail.model.annotated_fields import ANNOTATED_FIELDS
from dovetail.model.kinds import CUSTOM_RESOURCE_DEFINITION
from dovetail.ports.errors import Denied, NotFound, Unavailable

QUIET = ["--metrics-port", "0", "--health-probe-port", "0", "--dashboard-port", "0", "--ledger", "off"]


def run(*arguments, **variables):
    environment = {"KUBECONFIG": "", "KUBERNETES_SERVICE_HOST": "", "HOME": "/nonexistent", **variables}
    return CliRunner().invoke(app, ["run", *QUIET, *map(str, arguments)], env=environment)


def told(result):
    """The error, which is one line, without a stack."""
    assert result.exit_code == 2, result.output
    lines = [line for line in result.stderr.splitlines() if not line.startswith("{")]
    assert lines[0].startswith("Error: ")
    assert "Traceback" not in result.output
    return lines


@contextmanager
def api_server(code, reason):
    """An API server that answers everything alike."""
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            body = json.dumps({**status, "message": f"{self.path.partition('?')[0]} {reason}"}).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            serving.join()


@pytest.fixture
def kubeconfig(tmp_path):
    def to_file(server, **user):
        path = tmp_path / "config"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": user or {"token": "secret"}}],
        }
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        return path

    return to_file


def test_without_a_cluster_the_error_lists_the_places_and_the_fix():
    (line,) = told(run())
    assert "neither --kubeconfig nor KUBECONFIG is set" in line
    assert line.endswith("specify one with --kubeconfig FILE")


def test_a_kubeconfig_that_is_not_there_is_named():
    (line,) = told(run("--kubeconfig", "/nonexistent/config"))
    assert line == (
        "Error: kubeconfig /nonexistent/config: no such file; specify another with --kubeconfig or KUBECONFIG"
    )


def test_a_context_that_is_not_there_is_answered_with_those_that_are(kubeconfig):
    (line,) = told(run("--kubeconfig", kubeconfig("http://127.0.0.1:1"), "--context", "there"))
    assert "there is no context 'there'" in line
    assert "here" in line


def test_missing_custom_resources_are_named_with_the_fix(kubeconfig):
    with api_server(404, "NotFound") as server:
        (line,) = told(run("--kubeconfig", kubeconfig(server)))
    assert "lacks the custom resources nodepools.karpenter.sh, nodeclaims.karpenter.sh" in line
    assert line.endswith("install them with:  dovetail crds | kubectl apply --server-side -f -")


@pytest.mark.parametrize(("code", "reason"), [(401, "Unauthorized"), (403, "Forbidden")])
def test_a_denied_request_is_reported(code, reason, kubeconfig):
    with api_server(code, reason) as server:
        (line,) = told(run("--kubeconfig", kubeconfig(server)))
    assert "nodepools" in line
    assert reason in line


def test_a_plugin_for_credentials_that_is_not_installed_is_named_with_the_remedy(kubeconfig):
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-plugin", "interactiveMode": "Never"}
    (line,) = told(run("--kubeconfig", kubeconfig("http://127.0.0.1:1", exec=plugin)))
    assert "exec plugin 'no-such-plugin' cannot be run: No such file or directory; install it" in line


def test_settings_that_cannot_be_read_are_all_named_with_flag_and_variable():
    lines = told(run("--kube-client-qps", "nan", "--log-level", "loud", DOVETAIL_DISRUPTION="perhaps"))
    assert lines[0] == "Error: invalid settings:"
    assert [line.partition(":")[0] for line in lines[1:]] == [
        "--disruption (DOVETAIL_DISRUPTION)",
        "--kube-client-qps (KUBE_CLIENT_QPS)",
        "--log-level (LOG_LEVEL)",
    ]


def test_instance_types_that_cannot_be_read_are_named_by_their_file(tmp_path, kubeconfig):
    path = tmp_path / "types.json"
    path.write_text("{nope")
    (line,) = told(run("--kubeconfig", kubeconfig("http://127.0.0.1:1"), "--instance-types-file-path", path))
    assert line.startswith(f"Error: instance types file {path}: $: is not JSON")


def test_a_log_file_that_cannot_be_opened_is_named_with_its_setting():
    (line,) = told(run(LOG_OUTPUT_PATHS="stdout,/nonexistent/dovetail.log"))
    assert line.startswith("Error: --log-output-paths (LOG_OUTPUT_PATHS): [Errno 2]")


def test_settings_of_karpenter_that_are_not_followed_are_logged_with_the_reason():
    result = run(LOG_OUTPUT_PATHS="stdout", CPU_REQUESTS="500", ISOLATED_VPC="maybe", FEATURE_GATES="NodeOverlay=true")
    logged = {line["setting"]: (line["level"], line["why"]) for line in map(json.loads, result.stdout.splitlines())}
    assert {name: level for name, (level, _) in logged.items()} == {
        "CPU_REQUESTS": "info",
        "ISOLATED_VPC": "warning",
        "FEATURE_GATES": "warning",
    }
    assert logged["CPU_REQUESTS"][1].startswith("no effect here, because ")


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--ignore-dra-requests=false", "--ignore-dra-requests (IGNORE_DRA_REQUESTS): false is refused"),
        ("--memory-limit=1Gi", "--memory-limit (MEMORY_LIMIT): is not valid"),
    ],
)
def test_flags_of_karpenter_are_read(flag, words):
    assert words in told(run(flag))[1]


@pytest.mark.parametrize("flag", ["--ignore-dra-requests", "--ignore-dra-requests=true"])
def test_a_boolean_flag_takes_precedence_over_its_variable_with_and_without_a_value(flag):
    (line,) = told(run(flag, "--dry-run=false", IGNORE_DRA_REQUESTS="false"))
    assert "neither --kubeconfig nor KUBECONFIG is set" in line  # it ends after it has read the settings


class OneCrd:
    """A cluster with one CustomResourceDefinition, or an error in its place."""

    def __init__(self, schema=None, error=None):
        self._schema, self._error = schema, error

    async def get(self, kind, key):
        assert (kind, key.name) == (CUSTOM_RESOURCE_DEFINITION, "nodepools.karpenter.sh")
        if self._error is not None:
            raise self._error
        versions = [
            {"name": "v1beta1", "schema": {"openAPIV3Schema": {}}},
            {"name": "v1", "schema": {"openAPIV3Schema": self._schema}},
        ]
        return from_plain(kind, {"metadata": {"name": key.name}, "spec": {"versions": versions}})


def logged(caplog, cluster):
    with caplog.at_level(logging.INFO):
        asyncio.run(_log_missing_fields(cluster))
    return caplog.records


def test_the_fields_that_the_installed_crd_lacks_are_logged_with_their_annotations(caplog):
    (record,) = logged(caplog, OneCrd({"properties": {"spec": {"properties": {"disruption": {}}}}}))
    assert "dovetail crds | kubectl apply" in record.getMessage()
    assert record.annotation_by_field == {field.path: field.annotation for field in ANNOTATED_FIELDS}


def test_the_crd_of_dovetail_is_not_logged(caplog):
    assert logged(caplog, OneCrd(schema_of(Scope("NodePool", "v1")))) == []


@pytest.mark.parametrize("error", [Denied("no"), NotFound("no"), Unavailable("no")])
def test_a_crd_that_cannot_be_read_does_not_stop_the_start(error, caplog):
    assert logged(caplog, OneCrd(error=error)) == []
