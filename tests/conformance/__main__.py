"""`make conformance`: Karpenter's own regression suite, unmodified, against Dovetail, spec by spec beside Karpenter.

Exits with 1 if a spec fails that is not on the list of known failures (`expected.json`).
"""

import argparse
import datetime as dt
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from conformance import results
from conformance.controllers import CONTROLLERS, karpenter_version, require_built
from conformance.expected import judge, read_expectations, split_unbuilt
from conformance.report import Result
from conformance.shard import Queue, Shard, list_specs


def say(line: str) -> None:
    """Print at once, also into a pipe."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="make conformance", description=__doc__)
    parser.add_argument("--specs", default="", help="run only specs that match this regular expression")
    parser.add_argument("--controller", choices=(*CONTROLLERS, "both"), default="dovetail")
    parser.add_argument("--shards", type=int, default=2, help="control planes at the same time; one for each core")
    parser.add_argument("--minutes", type=float, default=25, help="time limit of one spec")
    parser.add_argument("--unbuilt", action="store_true", help="also run specs of features that do not exist yet")
    parser.add_argument("--directory", type=Path, help="keep the logs there")
    parser.add_argument("--json", type=Path, default=results.FILE, help="where results are recorded")
    parser.add_argument("--table", action="store_true", help="print the recorded results and run nothing")
    return parser.parse_args(argv)


def run_all(name: str, queue: Queue, asked: argparse.Namespace, directory: Path) -> None:
    """Run the specs on one controller, with a worker for each shard."""
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            with Shard(CONTROLLERS[name](), directory / f"{name}-{number}", asked.minutes) as shard:
                while (spec := queue.take()) is not None:
                    with queue.turn(spec):
                        result = shard.run(spec)
                    queue.report(number, result)
        except BaseException as failure:  # noqa: BLE001 - told below, in the main thread
            failures.append(failure)
            queue.drop()

    workers = [threading.Thread(target=work, args=(number + 1,)) for number in range(asked.shards)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for failure in failures:
        say("\n".join([f"{name}: a shard failed: {failure!r}", *getattr(failure, "__notes__", [])]))


def conform(name: str, asked: argparse.Namespace, directory: Path) -> int:
    """Run one controller and judge it; the number of unexpected failures."""
    known = read_expectations(name)
    focused, everything = list_specs(asked.specs), list_specs()
    runnable, unbuilt = (focused, []) if asked.unbuilt else split_unbuilt(focused, known)

    def record(*found: Result) -> None:
        today = dt.datetime.now(dt.UTC).date().isoformat()
        merged = results.merge(results.read_results(asked.json), everything, name, found, today)
        results.write_results(merged, {"karpenter": karpenter_version()}, asked.json)

    ordered = results.longest_first(runnable, results.read_results(asked.json))
    say(f"{name}: {len(ordered)} of {len(everything)} specs on {asked.shards} shards; {len(unbuilt)} not built yet")
    record(*unbuilt)
    queue = Queue(ordered, say, record)
    run_all(name, queue, asked, directory)
    verdict, missing = judge(queue.results, known), len(ordered) - len(queue.results)
    for result in verdict.repaired:
        say(f"{name}: passes and is listed as a known failure; remove it from expected.json: {result.spec}")
    for result in verdict.unexpected:
        say(f"{name}: FAILED and not expected: {result.spec}\n    {result.message}")
    if missing:
        say(f"{name}: {missing} specs did not run")
    return len(verdict.unexpected) + missing


def main(argv: Sequence[str] | None = None) -> int:
    """Run what was asked for."""
    asked = parse(argv)
    if asked.table:
        recorded = results.read_results(asked.json)
        say(results.table(recorded, list(recorded)))
        return 0
    require_built()
    names = list(CONTROLLERS) if asked.controller == "both" else [asked.controller]
    with tempfile.TemporaryDirectory(prefix="conformance-") as temporary:
        directory = asked.directory or Path(temporary)
        unexpected = sum(conform(name, asked, directory) for name in names)
    specs = list_specs(asked.specs)
    say("\n" + results.table(results.read_results(asked.json), specs))
    say(f"recorded in {asked.json}")
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
