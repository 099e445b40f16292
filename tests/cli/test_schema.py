"""`dovetail schema` from outside."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from dovetail.cli.schema import schema

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
app = typer.Typer()
app.command()(schema)


def run(*arguments):
    return CliRunner().invoke(app, arguments)


@pytest.mark.parametrize(
    ("arguments", "file"),
    [
        ((), "dovetail.json"),
        (("--kind", "nodepool"), "karpenter.sh/nodepool_v1.json"),
        (("--kind", "NodePool", "--api-version", "karpenter.sh/v1beta1"), "karpenter.sh/nodepool_v1beta1.json"),
        (("--kind", "EC2NodeClass"), "karpenter.k8s.aws/ec2nodeclass_v1.json"),
    ],
)
def test_it_prints_the_schema_of_the_documentation(arguments, file):
    printed = run(*arguments)
    assert printed.exit_code == 0
    assert json.loads(printed.output) == json.loads((SCHEMAS / file).read_text())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--kind", "Pod"), "the kinds are NodePool, NodeClaim, KWOKNodeClass, EC2NodeClass"),
        (("--kind", "NodePool", "--api-version", "v2"), "the versions are v1, v1beta1"),
        (("--api-version", "v1"), "is not a kind"),
    ],
)
def test_what_is_not_known_is_refused_with_the_choices(arguments, told):
    refused = run(*arguments)
    assert refused.exit_code == 2
    assert told in " ".join(refused.output.replace("│", " ").split())
