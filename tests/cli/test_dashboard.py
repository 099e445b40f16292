"""`dovetail dashboard` and the dashboard of `demo` as commands: invalid options and addresses."""

import socket

import pytest
from typer.testing import CliRunner

from dovetail.cli.app import app

SNAPSHOT = "examples/snapshots/office-hours.yaml"


@pytest.fixture
def taken():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        yield held.getsockname()[1]


def dashboard(*arguments):
    return CliRunner().invoke(app, ["dashboard", "--snapshot", SNAPSHOT, *map(str, arguments)])


def test_a_port_in_use_is_named_with_the_remedy(taken):
    result = dashboard("--dashboard-port", taken)
    assert result.exit_code == 2
    assert f"Error: port {taken} on 127.0.0.1 cannot be used:" in result.stderr
    assert "--dashboard-port (DOVETAIL_DASHBOARD_PORT)" in result.stderr


def test_so_it_is_for_the_demo(taken):
    result = CliRunner().invoke(app, ["demo", "--plain", "--for", "1s", "--dashboard-port", str(taken)])
    assert result.exit_code == 2
    assert f"port {taken} on 127.0.0.1 cannot be used:" in result.stderr


def test_an_open_address_without_a_token_is_refused():
    result = dashboard("--dashboard-address", "0.0.0.0")  # noqa: S104 - refused
    assert result.exit_code == 2
    assert "Error: the page on 0.0.0.0 would be open to everyone" in result.stderr


def test_a_token_file_that_is_not_there_or_empty_is_named(tmp_path):
    empty = tmp_path / "token"
    missing = dashboard("--dashboard-token-file", empty)
    assert (missing.exit_code, str(empty) in missing.stderr) == (2, True)
    empty.write_text("\n")
    assert f"{empty} holds no token" in dashboard("--dashboard-token-file", empty).stderr


def test_a_token_of_the_page_beside_those_of_the_cluster_is_a_mistake(tmp_path):
    token = tmp_path / "token"
    token.write_text("correct-horse-battery-staple")
    result = dashboard("--dashboard-auth", "tokenreview", "--dashboard-token-file", token)
    assert result.exit_code == 2
    assert "remove --dashboard-token-file" in result.stderr


def test_token_review_without_a_cluster_is_refused(tmp_path, monkeypatch):
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    result = dashboard("--dashboard-auth", "tokenreview", "--dashboard-port", 0)
    assert result.exit_code == 2
    assert "no kubeconfig" in result.stderr


def test_an_unknown_auth_method_is_refused_with_the_known_ones():
    result = dashboard("--dashboard-auth", "oauth")
    assert result.exit_code == 2
    assert "tokenreview" in result.stderr


def test_a_snapshot_that_is_not_there_is_named():
    result = CliRunner().invoke(app, ["dashboard", "--snapshot", "nowhere.json"])
    assert result.exit_code == 2
    assert "nowhere.json" in result.stderr
