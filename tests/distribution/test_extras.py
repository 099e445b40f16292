"""Commands on files import no optional dependency, and the image has those that the controller uses."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OPTIONAL = ("aiobotocore", "botocore", "distributed", "dask", "highspy", "opentelemetry")
WITHOUT = f"""
import sys
sys.modules.update(dict.fromkeys({OPTIONAL!r}))
from dovetail.cli import main
main()
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ("validate", "examples/nodepools", "examples/aws"),
        ("plan", "--snapshot", "examples/snapshots/office-hours.yaml"),
        ("explain", "node", "general-1", "--snapshot", "examples/snapshots/office-hours.yaml"),
        ("crds",),
        ("run", "--help"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_command_on_files_needs_no_extra(arguments):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_lock_of_the_image_has_the_extras_of_the_controller():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    locked = set(re.findall(r"^([\w.-]+)==", (ROOT / "requirements" / "run.lock").read_text(), re.MULTILINE))
    for extra in ("aws", "highs", "otel"):
        assert {re.match(r"[\w-]+", each)[0] for each in extras[extra]} <= locked
