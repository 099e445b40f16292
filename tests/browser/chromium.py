"""Finds a Chromium for the browser tests, and gets one where it can: `make browser` runs this file."""

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find() -> str | None:
    """The browser to use: the one named by DOVETAIL_CHROMIUM, else the system's."""
    named = os.environ.get("DOVETAIL_CHROMIUM")
    if named:
        return named
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def is_required() -> bool:
    """Whether a missing browser is a failure (in CI) or a reason to skip (on a desk)."""
    return any(os.environ.get(name, "") not in {"", "0", "false"} for name in ("CI", "DOVETAIL_BROWSER_REQUIRED"))


def install() -> None:
    """Let the system's package manager bring it, where we may ask."""
    if not shutil.which("apt-get") or os.geteuid() != 0:
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for step in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", "chromium"]):
        subprocess.run(["apt-get", *step], check=False, env=environment, stdout=subprocess.DEVNULL)


def main() -> int:
    if find() is None:
        install()
    found = find()
    if found is not None:
        sys.stdout.write(f"browser: {found}\n")
        return 0
    remedy = "install Chromium (apt-get install chromium), or name a browser with DOVETAIL_CHROMIUM"
    ending = "the browser tests may not be skipped here" if is_required() else "the browser tests will be skipped"
    sys.stderr.write(f"there is no Chromium: {remedy}; {ending}\n")
    return 1 if is_required() else 0


if __name__ == "__main__":
    sys.exit(main())
