"""`dovetail validate -o sarif`: what a code scanning service needs of it, from outside."""

import json

import pytest
import typer
from typer.testing import CliRunner

from dovetail.cli.validate import validate

INVALID = """apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: general
spec:
  disruption:
    consolidateAfter: soon
    budgets:
    - nodes: 10%
    - nodes: 200%
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements: []
"""
WARNED = INVALID.replace("soon", "1m").replace("10%", '"0"').replace("    - nodes: 200%\n", "")
app = typer.Typer()
app.command()(validate)


def run(*arguments):
    printed = CliRunner().invoke(app, [*map(str, arguments), "-o", "sarif"])
    log = json.loads(printed.stdout)
    (only,) = log["runs"]
    return printed.exit_code, log, only


@pytest.fixture(autouse=True)
def manifests(tmp_path, monkeypatch):
    """Files in the working directory, as in a repository."""
    (tmp_path / "pools").mkdir()
    (tmp_path / "pools" / "my pool.yaml").write_text(INVALID)
    (tmp_path / "warned.yaml").write_text(WARNED)
    (tmp_path / "broken.yaml").write_text("a: [\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def places(results):
    return [
        (
            each["ruleId"],
            each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"],
            each["locations"][0]["physicalLocation"]["region"]["startLine"],
            each["level"],
        )
        for each in results
    ]


def test_each_fault_is_an_error_at_its_line_with_the_rule_of_its_field():
    exit_code, log, only = run("pools")
    assert exit_code == 1
    assert log["version"] == "2.1.0"
    assert places(only["results"]) == [
        ("NodePool/spec.disruption.consolidateAfter", "pools/my%20pool.yaml", 7, "error"),
        ("NodePool/spec.disruption.budgets[].nodes", "pools/my%20pool.yaml", 10, "error"),
    ]
    message = only["results"][0]["message"]["text"]
    assert message.startswith("NodePool general: spec.disruption.consolidateAfter: ")
    assert "such as 30s" in message


def test_every_result_refers_to_a_declared_rule():
    _, _, only = run("pools", "broken.yaml")
    rules = only["tool"]["driver"]["rules"]
    assert only["tool"]["driver"]["name"] == "dovetail"
    assert [rules[each["ruleIndex"]]["id"] for each in only["results"]] == [each["ruleId"] for each in only["results"]]
    assert len({rule["id"] for rule in rules}) == len(rules)
    assert all(rule["shortDescription"]["text"] for rule in rules)


def test_a_warning_is_a_warning_and_an_error_when_strict():
    exit_code, _, only = run("warned.yaml")
    assert exit_code == 0
    assert {each["level"] for each in only["results"]} == {"warning"}
    exit_code, _, only = run("warned.yaml", "--strict")
    assert exit_code == 1
    assert {each["level"] for each in only["results"]} == {"error"}


def test_text_that_is_not_yaml_is_a_result_of_the_document():
    exit_code, _, only = run("broken.yaml")
    assert exit_code == 1
    ((rule, uri, line, level),) = places(only["results"])
    assert (rule, uri, level) == ("document/document", "broken.yaml", "error")
    assert line >= 1


def test_a_missing_file_is_a_failed_invocation_and_the_rest_is_reported():
    exit_code, _, only = run("absent.yaml", "pools")
    assert exit_code == 2
    (invocation,) = only["invocations"]
    assert invocation["executionSuccessful"] is False
    assert [each["message"]["text"] for each in invocation["toolExecutionNotifications"]] == [
        "absent.yaml: no such file or directory"
    ]
    assert len(only["results"]) == 2


def test_without_findings_the_list_of_results_is_empty_but_there(manifests):
    (manifests / "valid.yaml").write_text(INVALID.replace("soon", "1m").replace("200%", "20%"))
    exit_code, _, only = run("valid.yaml")
    assert (exit_code, only["results"]) == (0, [])
    assert only["invocations"][0]["executionSuccessful"] is True
