"""Whether each bug is caught: first what the unmodified sources say, then one bug after the other, on several copies.

A test that fails without any bug, or a story that breaks an invariant without one, proves nothing: bugs that name
such a test are not judged, and such seeds are left out.
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
PATIENCE = 10
"""So many times as long as without the bug may tests take, and stories half of that, before they count as hanging."""


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """What the unmodified sources say."""

    seconds_by_test: dict[str, float]
    failed: dict[str, str]
    """Tests that fail, with what they say."""
    seconds_by_seed: dict[int, float]
    red_seeds: frozenset[int]

    def seconds(self, targets: Sequence[str]) -> float:
        """How long the tests of some files and node ids take."""
        return sum(each for name, each in self.seconds_by_test.items() if _is_among(name, targets))

    def red(self, targets: Sequence[str]) -> str:
        """A test among these that fails without any bug, or empty."""
        return next((name for name in sorted(self.failed) if _is_among(name, targets)), "")


@dataclass(frozen=True, kw_only=True)
class Result:
    """What became of one bug."""

    bug: Bug
    tests: Outcome | None = None
    torture: Outcome | None = None
    broken: str = ""

    @property
    def caught(self) -> bool:
        """Whether tests or stories noticed it."""
        return not self.broken and any(each is not None and each.caught for each in (self.tests, self.torture))

    @property
    def seconds(self) -> float:
        """How long that took."""
        return sum(each.seconds for each in (self.tests, self.torture) if each is not None)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to run: which bugs, on how many copies, with which stories."""

    root: Path
    bugs: tuple[Bug, ...]
    jobs: int = 2
    seeds: Sequence[int] = SEEDS
    always_torture: bool = False
    """Live through the stories also where tests caught a bug already."""


class Trial:
    """Copies of the checkout, and what is run in them."""

    def __init__(self, plan: Plan, place: Path, tell: Callable[[str], None]) -> None:
        self._plan = plan
        self._tell = tell
        self._free: Queue[Workspace] = Queue()
        self._pool = ThreadPoolExecutor(plan.jobs)
        for each in self._pool.map(lambda job: Workspace(plan.root, place / str(job)), range(plan.jobs)):
            self._free.put(each)

    @contextmanager
    def _workspace(self) -> Iterator[Workspace]:
        mine = self._free.get()
        try:
            yield mine
        finally:
            self._free.put(mine)

    def baseline(self) -> Baseline:
        """Run every test that some bug names, and every story, without a bug."""
        targets = sorted({target for bug in self._plan.bugs for target in bug.tests})
        files = sorted({target.partition("::")[0] for target in targets})
        shares = [
            [each for each in targets if each.partition("::")[0] in files[job :: self._plan.jobs]] for job in self._jobs
        ]
        tests = list(self._pool.map(self._tests_without_bug, filter(None, shares)))
        told = list(
            self._pool.map(
                self._torture_without_bug, filter(None, (self._plan.seeds[j :: self._plan.jobs] for j in self._jobs))
            )
        )
        return Baseline(
            seconds_by_test={name: seconds for times, _ in tests for name, seconds in times.items()},
            failed={name: said for _, failed in tests for name, said in failed.items()},
            seconds_by_seed={int(seed): seconds for each in told for seed, seconds in each.seconds_by_name},
            red_seeds=frozenset(int(seed) for each in told for seed, _ in each.failures),
        )

    @property
    def _jobs(self) -> range:
        return range(self._plan.jobs)

    def _tests_without_bug(self, targets: Sequence[str]) -> tuple[dict[str, float], dict[str, str]]:
        with self._workspace() as workspace:
            outcome = workspace.run_tests(targets, first=False)
        self._tell(f"without a bug: {len(outcome.seconds_by_name)} tests in {outcome.seconds:.0f} s")
        return dict(outcome.seconds_by_name), dict(outcome.failures)

    def _torture_without_bug(self, seeds: Sequence[int]) -> Outcome:
        with self._workspace() as workspace:
            outcome = workspace.run_torture(seeds, first=False)
        self._tell(f"without a bug: {len(seeds)} stories in {outcome.seconds:.0f} s")
        return outcome

    def results(self, baseline: Baseline) -> list[Result]:
        """Plant every bug."""
        waiting = {self._pool.submit(self._judge, bug, baseline): bug for bug in self._plan.bugs}
        found: dict[str, Result] = {}
        for done, each in enumerate(as_completed(waiting), 1):
            result = each.result()
            found[result.bug.id] = result
            self._tell(f"{done}/{len(waiting)} {result.bug.id}: {describe(result)} ({result.seconds:.0f} s)")
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
            tests = workspace.run_tests(bug.tests, max(SHORTEST_TIMEOUT, PATIENCE * baseline.seconds(bug.tests)))
        if tests is None or not tests.caught or self._plan.always_torture:
            seeds = [each for each in dict.fromkeys((*bug.seeds, *self._plan.seeds)) if each not in baseline.red_seeds]
            usual = sum(baseline.seconds_by_seed.values())
            if seeds:
                torture = workspace.run_torture(seeds, max(SHORTEST_TIMEOUT, PATIENCE / 2 * usual))
        return Result(bug=bug, tests=tests, torture=torture)

    def close(self) -> None:
        """Let go of the threads."""
        self._pool.shutdown(cancel_futures=True)


def _is_among(test: str, targets: Sequence[str]) -> bool:
    return any(test == each or test.startswith((f"{each}::", f"{each}[")) for each in targets)


def describe(result: Result) -> str:
    """What caught a bug, in a few words."""
    if result.broken:
        return f"BROKEN, {result.broken}"
    found = [
        f"{each.failed}{' hangs' if each.hangs else ''}" for each in (result.tests,) if each is not None and each.caught
    ]
    if result.torture is not None and result.torture.caught:
        found.append(f"torture {result.torture.failed}: {result.torture.said}")
    return "; ".join(found) or "SURVIVES"
