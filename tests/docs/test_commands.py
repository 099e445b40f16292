"""Every documented command that needs no cluster runs, with the files that its page speaks of.

Simulations and demos are shortened. Commands that need a cluster, a ledger or a scheduler elsewhere are listed by the
words that give them away; a command that is neither run nor listed fails.
"""

import gzip
import re
import shlex
import shutil

import pytest
from typer.testing import CliRunner

from docs.pages import PAGES, ROOT, blocks
from dovetail.cli.app import app

SNAPSHOT = ROOT / "examples" / "snapshots" / "office-hours.yaml"
NEEDS_MORE = re.compile(
    r"^dovetail (run|adopt$|adopt -o|dashboard|history|snapshot -o|top$|top --nodepool|COMMAND|\.\.\.)"
    r"|\$|--dask|--dashboard-port|\[OPTIONS\]|--context|--kubeconfig|--watch|-A$"
    r"|^dovetail (plan|explain|budgets|drain|what-if|top)(?!.*(--snapshot|-f |--file)).*$"
)
SHORTENED = {"simulate": ["--for", "10m", "--seeds", "1"], "demo": ["--for", "2m", "--speed", "max", "--plain"]}
ANSWERS_NO = {"validate", "drain"}  # exit code 1: pages show manifests with faults and a drain that is stuck


def documented():
    """The calls of `dovetail` at the start of a line of a shell block, once each."""
    lines = (
        line.split(" # ")[0].split(" | ")[0].split(" > ")[0].strip()
        for page in PAGES
        for block in blocks(page, "sh")
        for line in block.text.replace("\\\n", " ").splitlines()
    )
    return sorted({re.sub(r"\s+", " ", line) for line in lines if line.startswith("dovetail ")})


@pytest.fixture
def directory(tmp_path, monkeypatch):
    """A directory with the files that the pages name."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    pool = ROOT / "examples" / "nodepools" / "general.yaml"
    for name in ("nodepool.yaml", "nodepools.yaml", "nodepools/general.yaml", "deploy/pool.yaml", "overlays/pool.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(pool, tmp_path / name)
    (tmp_path / "manifests").mkdir()
    shutil.copy(pool, tmp_path / "manifests")
    for name in ("cluster.json.gz", "before.json.gz"):
        (tmp_path / name).write_bytes(gzip.compress(SNAPSHOT.read_bytes()))
    text = (ROOT / "examples" / "scenarios" / "grace-period.yaml").read_text()
    (tmp_path / "ours.yaml").write_text(text.replace("name: default", "name: general"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("call", [each for each in documented() if not NEEDS_MORE.search(each)])
@pytest.mark.usefixtures("directory")
def test_a_documented_command_runs(call):
    words = shlex.split(call)[1:]
    result = CliRunner().invoke(app, [*words, *SHORTENED.get(words[0], ())])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code in ({0, 1} if words[0] in ANSWERS_NO else {0}), result.output


def test_commands_of_every_kind_are_run():
    run = {call.split()[1] for call in documented() if not NEEDS_MORE.search(call)}
    assert run >= {"plan", "explain", "budgets", "drain", "top", "validate", "simulate", "demo", "crds", "torture"}
