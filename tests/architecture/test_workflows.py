"""The workflows, hooks and templates of the repository name only what exists."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z0-9-]+):", MAKEFILE, re.MULTILINE))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
HOOKS = ROOT / ".pre-commit-config.yaml"
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def read(path):
    return yaml.safe_load(path.read_text())


def steps(workflow):
    return [step for job in read(workflow)["jobs"].values() for step in job["steps"]]


def made(workflow):
    """The targets a workflow makes: those its steps name, and those it lets a person choose."""
    commands = [words for step in steps(workflow) for words in re.findall(r"make ([^\n]+)", step.get("run", ""))]
    named = {word for words in commands for word in words.split() if re.fullmatch(r"[a-z0-9-]+", word)}
    started_by = read(workflow)[True]  # YAML 1.1 reads the key `on` as a boolean
    inputs = (started_by.get("workflow_dispatch") or {}).get("inputs") or {}
    return named | set(inputs.get("target", {}).get("options", ()))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_makes_targets_that_exist(workflow):
    assert made(workflow)
    assert made(workflow) <= TARGETS


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_runs_nothing_but_make(workflow):
    assert [step["run"] for step in steps(workflow) if not step.get("run", "make ").startswith("make ")] == []


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_may_only_read_the_repository(workflow):
    assert read(workflow)["permissions"] == {"contents": "read"}


def test_the_workflows_run_what_ci_runs():
    ci = set(re.findall(r"^(?:make|twice) ([a-z0-9-]+)", (ROOT / ".ci" / "run").read_text(), re.MULTILINE))
    assert ci == {"test", "wheel", "torture", "browser", "e2e"}
    assert ci <= made(ROOT / ".github" / "workflows" / "test.yml")


def test_every_change_builds_the_site_and_the_image():
    """CI has no container engine everywhere: the workflow has."""
    assert {"docs", "image"} <= made(ROOT / ".github" / "workflows" / "test.yml")


def hooks():
    return {hook["id"]: hook for repository in read(HOOKS)["repos"] for hook in repository["hooks"]}


def test_hooks_run_tools_that_the_makefile_runs_and_download_nothing():
    assert {repository["repo"] for repository in read(HOOKS)["repos"]} == {"local"}
    for hook in hooks().values():
        program, _, rest = hook["entry"].partition(" ")
        if hook["language"] == "system":
            assert rest in TARGETS if program == "make" else f"$(BIN)/{Path(program).name} {rest}" in MAKEFILE


@pytest.mark.parametrize(
    ("message", "accepted"),
    [
        ("core: count host ports of static pods\n\nKubelet binds them too.\n", True),
        ("cloud/aws: retry a throttled launch\n", True),
        ("docs, tests: name the solver's modules\n", True),
        ("core: wait\n# Please enter the commit message\n", True),
        ("Merge branch 'solver'\n", True),
        ("Count host ports\n", False),
        ("core:count host ports\n", False),
        ("core: count host ports\nand more on the second line\n", False),
        ("core: " + "a" * 66 + "\n", True),
        ("core: " + "a" * 67 + "\n", False),
    ],
)
def test_the_commit_message_hook_accepts_package_and_change(message, accepted):
    hook = hooks()["commit-message"]
    assert hook["args"] == ["--multiline", "--negate"]
    pattern = re.compile(hook["entry"], re.MULTILINE | re.DOTALL)  # the flags that pre-commit uses for --multiline
    assert bool(pattern.search(message)) is accepted


def test_the_bug_form_requires_a_snapshot_and_versions():
    fields = {field["id"]: field for field in read(ROOT / ".github" / "ISSUE_TEMPLATE" / "bug.yml")["body"]}
    assert fields["snapshot"]["validations"]["required"]
    assert "dovetail snapshot" in fields["snapshot"]["attributes"]["description"]
    assert fields["versions"]["validations"]["required"]


@pytest.mark.parametrize("form", [form for form in FORMS if form.stem != "config"], ids=lambda path: path.name)
def test_an_issue_form_has_what_github_requires(form):
    content = read(form)
    assert {"name", "description", "body"} <= set(content)
    assert len({field["id"] for field in content["body"]}) == len(content["body"])


def test_each_owned_path_exists():
    lines = (ROOT / ".github" / "CODEOWNERS").read_text().splitlines()
    paths = [line.split()[0] for line in lines if line and not line.startswith("#")]
    assert paths[0] == "*"
    assert [path for path in paths[1:] if not (ROOT / path.strip("/")).is_dir()] == []
