"""Checks that PyPI's vulnerability database answers: pip-audit reports its absence as a fault of a package.

Usage: python requirements/check_database.py [URL]. Exit code 2: it does not answer; nothing was audited.
"""

import json
import sys
import urllib.error
import urllib.request

URL = "https://pypi.org/pypi/requests/2.19.0/json"
"""A release with known vulnerabilities: an answer without any comes from something else, such as a mirror."""


def problem(url: str) -> str:
    """Say what is wrong with the answer; empty if nothing is."""
    try:
        with urllib.request.urlopen(url, timeout=15) as answer:  # noqa: S310 - a fixed URL, or that of a test
            known = json.load(answer).get("vulnerabilities")
    except urllib.error.HTTPError as error:
        return f"it answers {error.code} {error.reason}"
    except (OSError, ValueError, AttributeError) as error:
        return str(error) or type(error).__name__
    return "" if known else "it knows no vulnerability of a release that has some, so it is a mirror without them"


def main() -> int:
    """Print the problem, if any."""
    url = sys.argv[1] if len(sys.argv) > 1 else URL
    found = problem(url)
    if found:
        sys.stderr.write(
            f"Error: nothing was audited: the vulnerability database of PyPI cannot be used at {url}: {found}\n"
            "Run make audit on a host that reaches https://pypi.org, or scan the SBOM of make sbom"
            " (dist/dovetail.cdx.json) with a scanner that has its own database.\n"
        )
    return 2 if found else 0


if __name__ == "__main__":
    sys.exit(main())
