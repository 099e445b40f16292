"""Plants every bug in copies of the checkout and runs its tests and torture trials, after a baseline without bugs.

A test that fails or a trial that violates an invariant without a bug proves nothing: a bug that names a failing test
is reported as broken, and seeds of failing trials are skipped.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

from planted.bug import Bug, NotPlantable
from planted.workspace import Broken, Outcome, Workspace

SEEDS = range(60)
SHORTEST_TIMEOUT = 120.0
TIMEOUT_FACTOR = 10
"""Timeout of tests as a multiple of their time without the bug; trials get half of that. After it they hang."""


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """The results without a bug."""

    seconds_by_test: dict[str, float]
    failed: dict[str, str]
    """Messages of failing tests, by test."""
    seconds_by_seed: dict[int, float]
    red_seeds: frozenset[int]

    def seconds(self, targets: Sequence[str]) -> float:
        """The seconds that the tests of these files and node ids take."""
        return sum(each for name, each in self.seconds_by_test.items() if _is_among(name, targets))

    def red(self, targets: Sequence[str]) -> str:
        """A test of these files and node ids that fails without a bug; empty if all pass."""
        return next((name for name in sorted(self.failed) if _is_among(name, targets)), "")


@dataclass(frozen=True, kw_only=True)
class Result:
    """The result of one bug."""

    bug: Bug
    tests: Outcome | None = None
    torture: Outcome | None = None
    broken: str = ""

    @property
    def caught(self) -> bool:
        """Whether a test or a trial detected it."""
        return not self.broken and any(each is not None and each.caught for each in (self.tests, self.torture))

    @property
    def seconds(self) -> float:
        """The seconds that tests and trials took."""
        return sum(each.seconds for each in (self.tests, self.torture) if each is not None)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The bugs to plant, the number of copies, and the seeds of the trials."""

    root: Path
    bugs: tuple[Bug, ...]
    jobs: int = 2
    seeds: Sequence[int] = SEEDS
    always_torture: bool = False
    """Run the trials even if tests caught the bug."""


class PlantedRun:
    """Runs tests and trials in several copies of the checkout."""

    def __init__(self, plan: Plan, place: Path, show: Callable[[str], None]) -> None:
        self._plan = plan
        self._show = show
        self._free: Queue[Workspace] = Queue()
        self._pool = ThreadPoolExecutor(plan.jobs)
        for each in self._pool.map(lambda job: Workspace(plan.root, place / str(job)), range(plan.jobs)):
            self._free.put(each)

    @contextmanager
    def _workspace(self) -> Iterator[Workspace]:
        workspace = self._free.get()
        try:
            yield workspace
        finally:
            self._free.put(workspace)

    def baseline(self) -> Baseline:
        """Run all tests that bugs name, and all trials, without a bug."""
        targets = sorted({target for bug in self._plan.bugs for target in bug.tests})
        files = sorted({target.partition("::")[0] for target in targets})
        shares = [
            [each for each in targets if each.partition("::")[0] in files[job :: self._plan.jobs]] for job in self._jobs
        ]
        tests = list(self._pool.map(self._tests_without_bug, filter(None, shares)))
        trials = list(
            self._pool.map(
                self._torture_without_bug, filter(None, (self._plan.seeds[j :: self._plan.jobs] for j in self._jobs))
            )
        )
        return Baseline(
            seconds_by_test={name: seconds for times, _ in tests for name, seconds in times.items()},
            failed={name: said for _, failed in tests for name, said in failed.items()},
            seconds_by_seed={int(seed): seconds for each in trials for seed, seconds in each.seconds_by_name},
            red_seeds=frozenset(int(seed) for each in trials for seed, _ in each.failures),
        )

    @property
    def _jobs(self) -> range:
        return range(self._plan.jobs)

    def _tests_without_bug(self, targets: Sequence[str]) -> tuple[dict[str, float], dict[str, str]]:
        with self._workspace() as workspace:
            outcome = workspace.run_tests(targets, first=False)
        self._show(f"without a bug: {len(outcome.seconds_by_name)} tests in {outcome.seconds:.0f} s")
        return dict(outcome.seconds_by_name), dict(outcome.failures)

    def _torture_without_bug(self, seeds: Sequence[int]) -> Outcome:
        with self._workspace() as workspace:
            outcome = workspace.run_torture(seeds, first=False)
        self._show(f"without a bug: {len(seeds)} trials in {outcome.seconds:.0f} s")
        return outcome

    def results(self, baseline: Baseline) -> list[Result]:
        """Plant all bugs."""
        waiting = {self._pool.submit(self._judge, bug, baseline): bug for bug in self._plan.bugs}
        found: dict[str, Result] = {}
        for done, each in enumerate(as_completed(waiting), 1):
            result = each.result()
            found[result.bug.id] = result
            self._show(f"{done}/{len(waiting)} {result.bug.id}: {describe(result)} ({result.seconds:.0f} s)")
        return [found[bug.id] for bug in self._plan.bugs]

    def _judge(self, bug: Bug, baseline: Baseline) -> Result:
        red = baseline.red(bug.tests)
        if red:
            return Result(bug=bug, broken=f"{red} fails without the bug")
        try:
            with self._workspace() as workspace, workspace.planted(bug):
                return self._run(bug, baseline, workspace)
        except (Broken, NotPlantable) as error:
            return Result(bug=bug, broken=str(error))

    def _run(self, bug: Bug, baseline: Baseline, workspace: Workspace) -> Result:
        tests = torture = None
        if bug.tests:
            tests = workspace.run_tests(bug.tests, max(SHORTEST_TIMEOUT, TIMEOUT_FACTOR * baseline.seconds(bug.tests)))
        if tests is None or not tests.caught or self._plan.always_torture:
            seeds = [each for each in dict.fromkeys((*bug.seeds, *self._plan.seeds)) if each not in baseline.red_seeds]
            usual = sum(baseline.seconds_by_seed.values())
            if seeds:
                torture = workspace.run_torture(seeds, max(SHORTEST_TIMEOUT, TIMEOUT_FACTOR / 2 * usual))
        return Result(bug=bug, tests=tests, torture=torture)

    def close(self) -> None:
        """Stop the threads."""
        self._pool.shutdown(cancel_futures=True)


def _is_among(test: str, targets: Sequence[str]) -> bool:
    return any(test == each or test.startswith((f"{each}::", f"{each}[")) for each in targets)


def describe(result: Result) -> str:
    """The test or seed that caught a bug, in one line."""
    if result.broken:
        return f"BROKEN, {result.broken}"
    found = [
        f"{each.failed}{' hangs' if each.hangs else ''}" for each in (result.tests,) if each is not None and each.caught
    ]
    if result.torture is not None and result.torture.caught:
        found.append(f"torture {result.torture.failed}: {result.torture.said}")
    return "; ".join(found) or "SURVIVES"
