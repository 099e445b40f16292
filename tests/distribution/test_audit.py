"""`make audit` says so when it cannot audit anything, and does not blame a package."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def check(tmp_path, stderr, code):
    """Run the check with a program in place of pip-audit."""
    program = tmp_path / "pip-audit"
    program.write_text(f"#!/bin/sh\ngrep -q '^requests==2.19.0$' \"$4\" || exit 9\necho '{stderr}' >&2\nexit {code}\n")
    program.chmod(0o755)
    script = str(ROOT / "requirements" / "check_database.py")
    return subprocess.run([sys.executable, script, str(program)], capture_output=True, text=True, check=False)


def test_a_database_with_vulnerabilities_is_usable(tmp_path):
    done = check(tmp_path, "Found 5 known vulnerabilities in 1 package", 1)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("stderr", "code"),
    [
        ("ERROR:pip_audit._cli:requests: Dependency not found and could not be audited", 1),
        ("No known vulnerabilities found", 0),
        ("ConnectionError: Connection refused", 1),
        ("", 0),
    ],
)
def test_another_answer_is_an_error_that_says_what_to_do(tmp_path, stderr, code):
    done = check(tmp_path, stderr, code)
    assert done.returncode == 2
    assert (stderr or "no output") in done.stderr
    assert "nothing was audited" in done.stderr
    assert "make sbom" in done.stderr


def test_make_audit_checks_the_database_first():
    makefile = (ROOT / "Makefile").read_text()
    recipe = makefile[makefile.index("\naudit:") : makefile.index("\nclean:")]
    assert recipe.index("requirements/check_database.py") < recipe.index("pip-audit --strict")
