"""The two controllers under test, as processes on a control plane: the same cluster, the same settings."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from e2e.components import build
from e2e.controlplane.process import Process
from e2e.controlplane.stack import ControlPlane
from e2e.running import ALONE, DOVETAIL


@dataclass(frozen=True, slots=True)
class Controller:
    """How to start one of them; it finds the cluster by KUBECONFIG."""

    name: str
    argv: tuple[str, ...]
    environment: dict[str, str]

    def start(self, cluster: ControlPlane, settings: dict[str, str] | None = None) -> Process:
        """Start it as admin of the cluster, without a lease: on a busy machine either would lose it and end."""
        environment = {
            **{name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LANG") if name in os.environ},
            "HOME": str(cluster.directory),
            "KUBECONFIG": str(cluster.kubeconfig),
            "DISABLE_LEADER_ELECTION": "true",
            **self.environment,
            **(settings or {}),
        }
        return cluster.launch(self.name, *self.argv, env=environment)


def dovetail() -> Controller:
    """Dovetail with the settings under which it stands in for Karpenter."""
    environment = {
        **ALONE,
        "DOVETAIL_LOG_FORMAT": "text",
        "DOVETAIL_CATALOG": "generic",
        "DOVETAIL_DISRUPTION": "on",
        "DOVETAIL_REPAIR_WITHOUT_BLOCK": "provider",
        "FEATURE_GATES": "Drift=true,NodeRepair=true",
    }
    return Controller("dovetail", (DOVETAIL, "run", "--provider", "kwok"), environment)


def karpenter() -> Controller:
    """Karpenter's kwok build with the feature gates of its CI. Port 0 is any free port."""
    environment = {
        "METRICS_PORT": "0",
        "HEALTH_PROBE_PORT": "0",
        "FEATURE_GATES": "NodeRepair=true,StaticCapacity=true,CapacityBuffer=true",
    }
    return Controller("karpenter", (str(build.binaries_dir(build.KARPENTER) / "karpenter"),), environment)


CONTROLLERS = {"dovetail": dovetail, "karpenter": karpenter}


def suite_binary() -> Path:
    """Karpenter's regression suite."""
    return build.binaries_dir(build.KARPENTER) / "karpenter-regression"


def karpenter_version() -> str:
    """The release of Karpenter that both the suite and the peer are built from."""
    return build.version(build.KARPENTER)


def require_built() -> None:
    """Stop with a hint where the binaries are missing."""
    for recipe in build.RECIPES:
        if not build.is_built(recipe):
            raise SystemExit(f"{recipe.title} is not built in {build.binaries_dir(recipe)}: run `make e2e-binaries`")


@contextmanager
def peer_cluster(directory: Path) -> Iterator[ControlPlane]:
    """A control plane with Karpenter's custom resources and nothing else."""
    with ControlPlane(directory) as cluster:
        for manifest in sorted((build.binaries_dir(build.KARPENTER) / "crds").glob("*.yaml")):
            cluster.kubectl("apply", "--server-side", "-f", str(manifest))
        cluster.kubectl("wait", "--for=condition=Established", "--timeout=120s", "crd", "--all")
        yield cluster
