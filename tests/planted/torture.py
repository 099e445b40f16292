"""Torture stories in this process, up to the first that breaks an invariant: `python -m planted.torture 7 0 1 2`.

Writes one line of JSON for each story. `dovetail torture` goes through all of them and shrinks what it finds; here one
violation is enough.
"""

import json
import sys
import time
from typing import Any

from dovetail.cli.torture import run_seed
from planted.reporting import error_names


def run_trial(seed: int) -> dict[str, Any]:
    """One story: the first invariant it breaks, or the errors that ended it."""
    began = time.perf_counter()
    try:
        violations = [str(each) for each in run_seed(seed).violations]
        errors: list[str] = []
    except Exception as error:  # noqa: BLE001 - whatever a bug leads to ends the story
        violations, errors = [f"the story ended with {error!r}"], sorted(set(error_names(error)))
    said = violations[0] if violations else ""
    return {"seed": seed, "seconds": time.perf_counter() - began, "said": said, "errors": errors}


def main() -> int:
    """Tell the stories of the seeds given; 1 if one of them broke an invariant."""
    keep_going = "--all" in sys.argv
    found = False
    for seed in (int(each) for each in sys.argv[1:] if each != "--all"):
        told = run_trial(seed)
        print(json.dumps(told), flush=True)  # noqa: T201 - this is what it is run for
        found = found or bool(told["said"])
        if found and not keep_going:
            break
    return int(found)


if __name__ == "__main__":
    sys.exit(main())
