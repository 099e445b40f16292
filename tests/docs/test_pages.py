"""Nothing on a page may be untrue: links lead somewhere, manifests are valid, commands exist with their options."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main
import yaml

from docs.pages import PAGES, ROOT, anchors, blocks, links, shell_words
from dovetail.cli.app import app
from dovetail.controllers.cluster_state import ClusterState
from dovetail.manifest.documents import read_documents
from dovetail.manifest.validation import faults_of

COMMANDS = typer.main.get_command(app).commands
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
EXCERPT = "# excerpt"
MANIFESTS = [block for page in PAGES for block in blocks(page, "yaml")]
GUIDE = ROOT / "docs" / "guides" / "validate-manifests.md"


@pytest.mark.parametrize("link", [link for page in PAGES for link in links(page)], ids=str)
def test_a_relative_link_leads_somewhere(link):
    path, _, anchor = link.text.partition("#")
    page = ROOT / link.page
    target = (page.parent / path).resolve() if path else page
    assert target.exists()
    assert target.is_relative_to(ROOT)
    if anchor:
        assert anchor in anchors(target)


@pytest.mark.parametrize("block", [each for each in MANIFESTS if not each.text.startswith(EXCERPT)], ids=str)
def test_a_manifest_on_a_page_is_valid(block):
    documents = list(read_documents(block.text, block.page))
    assert documents
    for document in documents:
        faults = (*document.faults, *faults_of(document.content).faults)
        assert [str(fault) for fault in faults] == []


@pytest.mark.parametrize("call", [call for page in PAGES for call in shell_words(page, "dovetail")], ids=str)
def test_a_command_on_a_page_exists_with_its_options(call):
    _, name, *words = shlex.split(call.text)
    if name in {"COMMAND", "--help", "--version", "--install-completion", "..."}:
        return
    assert name in COMMANDS
    options = {option for each in COMMANDS[name].params for option in each.opts} | {"-h", "--help"}
    used = {word.split("=")[0] for word in words if word.startswith("-") and word != "-"}
    assert used <= options


@pytest.mark.parametrize("call", [call for page in PAGES for call in shell_words(page, "make")], ids=str)
def test_a_make_target_on_a_page_exists(call):
    words = [word for word in shlex.split(call.text)[1:] if "=" not in word and word not in {"-j", "-s"}]
    assert set(words) <= TARGETS


def test_the_guide_to_validation_shows_what_the_command_prints(tmp_path):
    sample = next(block for block in blocks(GUIDE, "yaml") if block.text.startswith(EXCERPT))
    (tmp_path / "nodepools.yaml").write_text(sample.text)
    command = [str(Path(sys.executable).parent / "dovetail"), "validate", "nodepools.yaml"]
    printed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert printed.stdout == blocks(GUIDE, "text")[0].text
    assert printed.returncode == 1


def test_the_role_lets_the_controllers_watch_all_they_look_at():
    roles = yaml.safe_load_all((ROOT / "deploy" / "base" / "reading.yaml").read_text())
    allowed = {
        (group, resource)
        for role in roles
        for rule in role.get("rules", ())
        if {"list", "watch"} <= set(rule["verbs"])
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    state = ClusterState(cluster=None)
    needed = {(each.kind.group, each.kind.plural) for each in (*state.informers, state.switch)}
    assert needed <= allowed


def test_every_custom_resource_is_in_the_kustomization():
    crds = ROOT / "deploy" / "crds"
    listed = yaml.safe_load((crds / "kustomization.yaml").read_text())["resources"]
    assert listed == sorted(each.name for each in crds.glob("*_*.yaml"))
