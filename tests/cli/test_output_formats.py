"""The output formats and resource names of kubectl, over all commands that print an answer."""

import json

import pytest
import yaml
from typer.testing import CliRunner

from acceptance.fleet import cluster, pdb, running, worker
from builders import nodepool, pod
from dovetail.cli.app import app
from dovetail.manifest.snapshot_file import snapshot_bytes

ANSWERS = {
    ("plan",): ("Plan", "node/general-c\n"),
    ("explain", "node", "general-a"): ("NodeExplanation", "node/general-a\n"),
    ("explain", "np/general"): ("NodePoolExplanation", "nodepool.karpenter.sh/general\n"),
    ("explain", "pod/web-1"): ("PodExplanation", "pod/web-1\n"),
    ("budgets", "np/general"): ("BudgetCalendar", "nodepool.karpenter.sh/general\n"),
    ("top", "--once"): ("ClusterNodes", "node/general-a\nnode/general-b\nnode/general-c\n"),
    ("drain", "node/general-a"): ("DrainPreview", "node/general-a\n"),
}


@pytest.fixture
def ask(tmp_path):
    path = tmp_path / "cluster.json"
    path.write_bytes(
        snapshot_bytes(
            cluster(
                worker("general-a", running("web-1", "general-a"), pool="general"),
                worker("general-b", running("web-2", "general-b"), pool="general"),
                worker("general-c", pool="general"),
                pools=[nodepool("general")],
                pods=[pod("vast", cpu="640", metadata={"namespace": "ci"}), pod("vast", cpu="640")],
                pdbs=[pdb(spec={"maxUnavailable": 0})],
            )
        )
    )
    return lambda *arguments: CliRunner().invoke(app, [*arguments, "--snapshot", str(path)])


@pytest.mark.parametrize("question", ANSWERS)
def test_json_and_yaml_say_what_they_are(ask, question):
    kind, _ = ANSWERS[question]
    document = json.loads(ask(*question, "-o", "json").stdout)
    assert (document["apiVersion"], document["kind"]) == ("dovetail.sh/v1alpha1", kind)
    assert list(document)[:2] == ["apiVersion", "kind"]
    assert yaml.safe_load(ask(*question, "-o", "yaml").stdout) == document


@pytest.mark.parametrize("question", ANSWERS)
def test_names_can_be_piped_to_kubectl(ask, question):
    assert ask(*question, "-o", "name").stdout == ANSWERS[question][1]


@pytest.mark.parametrize("question", ANSWERS)
def test_wide_and_jsonpath_are_accepted(ask, question):
    assert ask(*question, "-o", "wide").stdout == ask(*question).stdout  # a pipe is never too narrow
    assert ask(*question, "-o", "jsonpath={.kind}").stdout == ANSWERS[question][0]


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("xml", "'xml' is not one of text, wide, name, json, yaml, jsonpath=TEMPLATE"),
        ("jsonpath={.a", "the template is invalid: a brace is not closed"),
    ],
)
def test_an_unknown_format_is_refused(ask, output, words):
    result = ask("plan", "-o", output)
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.replace("│", " ").split())


@pytest.mark.parametrize(
    "spelling",
    [
        ("node", "general-a"),
        ("nodes", "general-a"),
        ("no", "general-a"),
        ("node/general-a",),
        ("no/general-a",),
        ("Node/general-a",),
        ("nodeclaim", "general-a"),
        ("nodeclaims.karpenter.sh/general-a",),
    ],
)
def test_a_node_has_every_spelling_of_kubectl(ask, spelling):
    assert ask("explain", *spelling, "-o", "jsonpath={.node}").stdout == "general-a"


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (("pod", "vast"), "default/vast"),
        (("po/vast", "-n", "ci"), "ci/vast"),
        (("pods", "ci/vast"), "ci/vast"),
        (("pod", "web-1", "-A"), "default/web-1"),
    ],
)
def test_a_pod_is_found_by_its_namespace(ask, arguments, found):
    assert ask("explain", *arguments, "-o", "jsonpath={.pod}").stdout == found


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("explain", "gateway", "x"), "write one of node (no), nodepool (np), nodeclaim (nc), pod (po)"),
        (("explain", "node"), "the name of the node is missing; write node NAME or node/NAME"),
        (("explain", "node/a", "b"), "'node/a' names an object already; remove 'b'"),
        (("explain", "pod", "vast", "-A"), "2 pods have the name 'vast': ci/vast, default/vast; choose one with -n"),
        (("explain", "pod", "nowhere", "-A"), "there is no pod 'nowhere'"),
        (("budgets", "pod/x"), "'pod/x' is not a nodepool; write NAME or nodepool/NAME"),
        (("drain", "np/x"), "'np/x' is not a node or nodeclaim"),
    ],
)
def test_a_name_that_cannot_be_understood_is_refused_with_the_spelling(ask, arguments, words):
    result = ask(*arguments)
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.replace("│", " ").split())
