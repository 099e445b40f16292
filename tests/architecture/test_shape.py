"""The shape of the tree, held by tests: small files and functions, one word per idea, nothing of where it is made."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
FILE_CEILING = 400
FUNCTION_CEILING = 45
BANNED_MODULES = {"utils", "util", "helpers", "common", "misc", "types"}


def test_no_file_is_longer_than_the_ceiling():
    long = {str(path.relative_to(ROOT)): lines for path in (*SOURCES, *TESTS) if (lines := _lines(path)) > FILE_CEILING}
    assert long == {}


def _lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def functions():
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield path, node


def test_functions_are_short_and_take_few_parameters():
    offenders = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path, node in functions()
        if _length(node) > FUNCTION_CEILING and "cli" not in path.parts
    ]
    assert offenders == []


def _length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def test_every_module_says_what_it_is_for():
    silent = [str(path.relative_to(ROOT)) for path in SOURCES if not ast.get_docstring(ast.parse(path.read_text()))]
    assert silent == []


def test_no_module_is_a_drawer():
    assert [str(path) for path in SOURCES if path.stem in BANNED_MODULES or path.parent.name in BANNED_MODULES] == []


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout, so there is no list of the project's files")
    return [ROOT / name for name in listed.stdout.splitlines()]


def test_the_project_speaks_of_itself_alone():
    """No path of a machine, no registry, no reference to anything outside the checkout."""
    foreign = re.compile("|".join(["/" + "work/", r"\.\./" + "shared", "pypi" + r"\.org", "proxy" + r"\.golang"]))
    found = []
    for path in tracked():
        if path.is_file() and path.suffix not in {".gz", ".png", ".sum"} and path != Path(__file__):
            text = path.read_text(errors="replace")
            found += [f"{path.relative_to(ROOT)}: {match.group()}" for match in foreign.finditer(text)]
    assert found == []


def test_the_core_takes_now_as_an_argument():
    """No clock is read in core, model or controllers: only ports tell the time."""
    clocks = re.compile(r"datetime\.(now|utcnow|today)\(|time\.(time|monotonic)\(")
    inner = [path for path in SOURCES if path.parts[len(ROOT.parts) + 2] in {"core", "model", "controllers", "sim"}]
    found = [str(path.relative_to(ROOT)) for path in inner if clocks.search(path.read_text())]
    assert found == []


def test_commands_print_through_one_place():
    """What users and clusters name may contain escape sequences: `cli.safe_output` makes everything safe to show."""
    direct = re.compile(
        r"typer\.echo\(|\bConsole\(|sys\.std(out|err)\.write|(?<![._\w])print\(|json\.dumps\(|yaml\.(safe_)?dump\("
    )
    allowed = {
        "safe_output.py": "the place itself",
        "torture.py": "progress that returns the carriage",
        "crds.py": "only our own text",
        "snapshot.py": "the bytes of a snapshot, as they would be in its file",
    }
    commands = [path for path in SOURCES if "cli" in path.parts and path.name not in allowed]
    assert [str(path.relative_to(ROOT)) for path in commands if direct.search(path.read_text())] == []
