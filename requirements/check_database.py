"""Checks that the vulnerability database answers: pip-audit reports its absence as a fault of the first package.

Usage: python requirements/check_database.py PIP_AUDIT. Lets pip-audit look up a release with known vulnerabilities.
Exit code 2: it knows none, because the index cannot be reached or is a mirror without them; nothing was audited.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

VULNERABLE = "requests==2.19.0"


def main() -> int:
    """Print what pip-audit said, if it found nothing."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder) / "requirements.txt"
        wanted.write_text(VULNERABLE + "\n", encoding="utf-8")
        command = [sys.argv[1], "--no-deps", "--disable-pip", "-r", str(wanted)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - no shell
    if "known vulnerabilit" in done.stderr and "No known" not in done.stderr:
        return 0
    lines = (done.stderr + done.stdout).strip().splitlines()
    sys.stderr.write(
        f"Error: nothing was audited: the vulnerability database of the package index does not answer for {VULNERABLE},"
        f" which has known vulnerabilities: {lines[-1] if lines else 'no output'}\n"
        "Run make audit on a host with access to the internet, or scan the SBOM of make sbom"
        " (dist/dovetail.cdx.json) with a scanner that has its own database.\n"
    )
    return 2


if __name__ == "__main__":
    sys.exit(main())
