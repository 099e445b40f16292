"""What every e2e test shares: one control plane a worker, and a clean cluster for each test that asks for it."""

import itertools
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from e2e.components import build
from e2e.controlplane.slate import wipe
from e2e.controlplane.stack import ControlPlane
from e2e.running import KARPENTER, KARPENTER_AWS, OWN, install_crds
from e2e.spreading import Spreading, rank_of

HERE = Path(__file__).parent
_RUNNING = pytest.StashKey[ControlPlane]()


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything below this directory needs the control plane; what takes longest goes first."""
    items[:] = [item for item in items if not _needs_own_crds(item)]
    ours = [item for item in items if item.path.is_relative_to(HERE)]
    for item in ours:
        item.add_marker(pytest.mark.e2e)
    if len(ours) == len(items):
        items.sort(key=lambda item: rank_of(item.nodeid))


def _needs_own_crds(item: pytest.Item) -> bool:
    """Whether this is the variant of a test on Karpenter's CRDs, and a marker says that there is none."""
    variant = getattr(item, "callspec", None)
    on_karpenters = variant is not None and variant.params.get("crd_owner") == KARPENTER
    return on_karpenters and any(item.get_closest_marker(name) for name in ("needs_own_crds", "once"))


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


def require_binaries(recipe: build.Recipe = build.CONTROL_PLANE) -> None:
    """Skip where the control plane, or Karpenter, is not built; fail where skipping is not allowed."""
    if build.is_built(recipe):
        return
    message = f"{recipe.title} is not built in {build.binaries_dir(recipe)}: run `make e2e-binaries` (needs Go)"
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


@pytest.fixture(scope="module", params=[OWN, KARPENTER])
def crd_owner(request: pytest.FixtureRequest) -> str:
    """Whose CRDs the cluster has: a test that asks for them runs on ours, and on Karpenter's unchanged."""
    if request.param == KARPENTER and request.node.get_closest_marker("needs_ec2_node_class"):
        require_binaries(build.DECODER)
        return KARPENTER_AWS
    if request.param == KARPENTER:
        require_binaries(build.KARPENTER)
    return str(request.param)


@pytest.fixture
def prepared(cluster, crd_owner):
    """A clean cluster with the custom resources installed as the guide says."""
    install_crds(cluster, crd_owner)
    return cluster
