"""Runs torture trials in this process up to the first violation: `python -m planted.torture 7 0 1 2`.

Prints one line of JSON for each trial. `dovetail torture` runs all trials and shrinks violations; here the first
violation is enough, unless `--all` is given.
"""

import json
import sys
import time
from typing import Any

from dovetail.cli.torture import run_seed
from planted.reporting import error_names


def run_timed(seed: int) -> dict[str, Any]:
    """Run one trial: its first violation, or the errors that ended it."""
    began = time.perf_counter()
    try:
        violations = [str(each) for each in run_seed(seed).violations]
        errors: list[str] = []
    except Exception as error:  # noqa: BLE001 - a planted bug can raise anything
        violations, errors = [f"the trial ended with {error!r}"], sorted(set(error_names(error)))
    said = violations[0] if violations else ""
    return {"seed": seed, "seconds": time.perf_counter() - began, "said": said, "errors": errors}


def main() -> int:
    """Run the trials of the given seeds; 1 if one of them violated an invariant."""
    run_all = "--all" in sys.argv
    found = False
    for seed in (int(each) for each in sys.argv[1:] if each != "--all"):
        result = run_timed(seed)
        print(json.dumps(result), flush=True)  # noqa: T201 - the caller reads standard output
        found = found or bool(result["said"])
        if found and not run_all:
            break
    return int(found)


if __name__ == "__main__":
    sys.exit(main())
