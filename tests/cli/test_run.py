"""`dovetail run` when it cannot start: one line that says why and what to do, and exit code 2."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import yaml
from typer.testing import CliRunner

from dovetail.cli.app import app

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
