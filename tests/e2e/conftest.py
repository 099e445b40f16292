"""What every e2e test shares: one control plane a worker, and a clean cluster for each test that asks for it."""

import itertools
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from e2e.components import build
from e2e.controlplane.slate import wipe
from e2e.controlplane.stack import ControlPlane
from e2e.running import crds
from e2e.spreading import Spreading, rank_of

HERE = Path(__file__).parent
_RUNNING = pytest.StashKey[ControlPlane]()


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything below this directory needs the control plane; what takes longest goes first."""
    ours = [item for item in items if item.path.is_relative_to(HERE)]
    for item in ours:
        item.add_marker(pytest.mark.e2e)
    if len(ours) == len(items):
        items.sort(key=lambda item: rank_of(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Spreading | None:
    """With `--dist loadfile`: files as a whole, save those that are better taken apart."""
    return Spreading(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the ends of the components' logs below a failure."""
    report = yield
    running = item.config.stash.get(_RUNNING, None)
    if report.failed and running is not None:
        report.sections.append(("control plane logs", running.log_tails()))
    return report


def require_binaries() -> None:
    """Skip where the control plane is not built; fail where skipping is not allowed."""
    if build.is_built():
        return
    message = f"the control plane is not built in {build.binaries_dir()}: run `make e2e-binaries` (needs Go)"
    if build.is_required():
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


@pytest.fixture(scope="session")
def control_plane(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The control plane of this session, in whatever state the last test left it."""
    require_binaries()
    with ControlPlane(tmp_path_factory.mktemp("control-plane")) as running:
        pytestconfig.stash[_RUNNING] = running
        yield running
        del pytestconfig.stash[_RUNNING]


@pytest.fixture
def cluster(control_plane: ControlPlane) -> ControlPlane:
    """The control plane without nodes, workloads, pools or claims of earlier tests."""
    wipe(control_plane.api)
    return control_plane


@pytest.fixture(scope="session")
def namespace_numbers() -> Iterator[int]:
    """A fresh number for each namespace of the session."""
    return itertools.count(1)


@pytest.fixture
def namespace(cluster: ControlPlane, namespace_numbers: Iterator[int]) -> str:
    """A namespace of the test's own, ready for pods."""
    return cluster.create_namespace(f"test-{next(namespace_numbers)}")


@pytest.fixture
def prepared(cluster):
    """A clean cluster with the custom resources installed as the guide says."""
    printed = cluster.kubectl("apply", "-f", "-", input=crds())
    assert "nodepools.karpenter.sh" in printed
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=120s", "crd", "--all")
    return cluster
