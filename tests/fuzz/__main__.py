"""A long run: `make fuzz SECONDS=600 SEED=1`, or one case again: `make fuzz TARGET=validate SEED=1 CASE=17`."""

import argparse
import faulthandler
import itertools
import logging
import resource
import sys
import time

from fuzz.engine import input_of, try_case
from fuzz.targets import TARGETS

MEMORY = 3 * 1024 * 1024 * 1024  # bytes of address space


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m fuzz")
    options.add_argument("--seconds", type=float, default=60.0)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--target", action="append", choices=sorted(TARGETS), default=None)
    options.add_argument("--case", type=int, default=None)
    options.add_argument("--most-findings", type=int, default=20)
    asked = options.parse_args()
    faulthandler.enable()
    logging.disable(logging.CRITICAL)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    chosen = [TARGETS[name] for name in asked.target or sorted(TARGETS)]
    if asked.case is not None:
        for target in chosen:
            sys.stdout.write(f"{target.name}: {input_of(target, asked.seed, asked.case)!r}\n")
    ends, done, seen = time.monotonic() + asked.seconds, 0, set()
    cases = itertools.count() if asked.case is None else (asked.case,)
    for case, target in ((case, target) for case in cases for target in chosen):
        if asked.case is None and (time.monotonic() > ends or len(seen) >= asked.most_findings):
            break
        found = try_case(target, asked.seed, case)
        done += 1
        if found is not None and (key := (target.name, found.error.strip().splitlines()[-1][:80])) not in seen:
            seen.add(key)
            sys.stdout.write(f"\n{found}\n")
            sys.stdout.flush()
    sys.stdout.write(f"\n{done} cases of {len(chosen)} targets, seed {asked.seed}: {len(seen)} findings\n")
    return 1 if seen else 0


if __name__ == "__main__":
    sys.exit(main())
