"""One worker of a run: a control plane, the controller under test on it, and the suite, one spec at a time.

Each spec is a process of its own with a focus on exactly that spec: a failure in an ordered container then skips
nothing, and a spec that hangs can be stopped. After a spec that did not pass, or that left objects behind, the cluster
is wiped and the controller started again, so that one failure never causes the next.
"""

import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Self

from conformance.controllers import Controller, peer_cluster, suite_binary
from conformance.report import Outcome, Result, only_result, read_report
from e2e.controlplane.slate import wipe
from e2e.controlplane.stack import ControlPlane

SUITE = "Regression"
GRACE = 60.0
"""Seconds for the clean-up of a spec that was stopped."""
EXCLUSIVE = ("Chaos ",)
"""Specs that listen on a fixed port (8080): one of them at a time on a machine."""
_LEFTOVERS = (
    "/api/v1/nodes",
    "/api/v1/namespaces/default/pods",
    "/apis/karpenter.sh/v1/nodepools",
    "/apis/karpenter.sh/v1/nodeclaims",
    "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses",
)


def focus_on(spec: str) -> str:
    """The regular expression that selects one spec; ginkgo puts the name of the suite before its text."""
    return f"^{SUITE} {re.escape(spec)}$"


def list_specs(focus: str = "") -> list[str]:
    """The names of the suite's specs, in its order; `focus` is a regular expression as ginkgo takes it."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch, "report.json")
        options = ["--ginkgo.dry-run", "--ginkgo.seed=1", "--ginkgo.succinct", f"--ginkgo.json-report={report}"]
        argv = [str(suite_binary()), *options, f"--ginkgo.focus={focus}"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert report.exists(), f"the suite cannot list its specs: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        found = read_report(report.read_text())
    return [each.spec for each in found if each.outcome is not Outcome.SKIPPED]


class Shard:
    """A worker. Use as a context manager in one thread: its processes end with the thread that started them."""

    def __init__(self, controller: Controller, directory: Path, minutes: float) -> None:
        """`minutes`: the time limit of a spec."""
        self._controller = controller
        self._directory = directory
        self._minutes = minutes
        self._held = ExitStack()
        self._count = 0

    def __enter__(self) -> Self:
        with ExitStack() as starting:
            self._cluster: ControlPlane = starting.enter_context(peer_cluster(self._directory))
            self._process = self._controller.start(self._cluster)
            starting.callback(lambda: self._process.stop(10))
            self._held = starting.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def run(self, spec: str) -> Result:
        """Run one spec and leave a clean cluster."""
        began_at = time.monotonic()
        result = self._run_suite(spec)
        result = replace(result, seconds=time.monotonic() - began_at)
        if self._process.exit_code is not None:
            told = f"{self._controller.name} ended with exit code {self._process.exit_code}"
            result = replace(result, outcome=Outcome.FAILED, message=f"{told}; {result.message}")
        left = self._leftovers()
        if result.outcome is not Outcome.PASSED or left or self._process.exit_code is not None:
            self._reset()
        return result

    def _run_suite(self, spec: str) -> Result:
        self._count += 1
        report = self._directory / f"spec-{self._count:03}.json"
        argv = [
            str(suite_binary()),
            f"--ginkgo.focus={focus_on(spec)}",
            f"--ginkgo.json-report={report}",
            f"--ginkgo.timeout={self._minutes:g}m",
            f"--ginkgo.grace-period={GRACE:g}s",
            f"--test.timeout={self._minutes + 5:g}m",
            "--ginkgo.vv",
            "--ginkgo.no-color",
        ]
        environment = {"KUBECONFIG": str(self._cluster.kubeconfig), "HOME": str(self._directory)}
        suite = self._cluster.launch(f"spec-{self._count:03}", *argv, env=environment)
        deadline = time.monotonic() + self._minutes * 60 + 3 * GRACE
        while suite.exit_code is None and time.monotonic() < deadline:
            time.sleep(0.5)
        if suite.exit_code is None:
            suite.kill()
        result = only_result(report, spec)
        if result.outcome is Outcome.TIMED_OUT or time.monotonic() >= deadline:
            told = f"stopped after {self._minutes:g} minutes, the time limit of a spec (MINUTES)"
            return replace(result, outcome=Outcome.TIMED_OUT, message=f"{told}; {result.message}; log: {suite.log}")
        return (
            result
            if result.outcome is Outcome.PASSED
            else replace(result, message=f"{result.message}; log: {suite.log}")
        )

    def _leftovers(self) -> list[str]:
        """What is still there after a spec; deletion that is under way gets a few seconds."""
        for _ in range(20):
            found = [item["metadata"]["name"] for path in _LEFTOVERS for item in self._cluster.api.items(path)]
            if not found:
                return []
            time.sleep(0.5)
        return found

    def _reset(self) -> None:
        self._process.stop(10)
        wipe(self._cluster.api, within=120)
        self._process.start()


class Queue:
    """The specs that are left and the results so far, shared by the workers."""

    def __init__(self, specs: list[str], tell: Callable[[str], None], record: Callable[[Result], None]) -> None:
        """`tell` prints a line; `record` keeps a result, so that a run that is stopped loses nothing."""
        self._left = list(specs)
        self._total = len(specs)
        self._tell = tell
        self._record = record
        self._lock = threading.Lock()
        self._port = threading.Lock()
        self.results: list[Result] = []

    def take(self) -> str | None:
        """The next spec, None when all are taken."""
        with self._lock:
            return self._left.pop(0) if self._left else None

    def turn(self, spec: str) -> AbstractContextManager[object]:
        """To be held while a spec runs."""
        return self._port if spec.startswith(EXCLUSIVE) else nullcontext()

    def report(self, shard: int, result: Result) -> None:
        """Note a result and print a line."""
        with self._lock:
            self.results.append(result)
            self._record(result)
            done = f"[{len(self.results):3}/{self._total}] shard {shard}"
            self._tell(f"{done}  {result.outcome:9} {result.seconds:6.0f} s  {result.spec}")
            if result.outcome is not Outcome.PASSED:
                self._tell(f"{'':12}{result.message}")

    def drop(self) -> None:
        """Let the workers end after the specs they are at."""
        with self._lock:
            self._left.clear()
