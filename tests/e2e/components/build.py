"""Builds the control plane of the e2e suite from its Go modules, once per machine.

The versions are those of the go.mod files in the directories beside this script; go.sum pins every byte. What comes out
lands in `$DOVETAIL_E2E_CACHE/<key>` (default `~/.cache/dovetail-e2e`). The key follows from the modules and the recipe
below, so a changed version is built anew and an unchanged one costs nothing. Nothing is installed elsewhere.
"""

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODULES = ("etcd", "kwok", "kubernetes")


@dataclasses.dataclass(frozen=True, slots=True)
class Component:
    """One binary: the module directory it is built in, and the main package."""

    name: str
    module: str
    package: str


# The small ones first: a machine that cannot build at all says so within seconds.
COMPONENTS = (
    Component("etcd", "etcd", "go.etcd.io/etcd/server/v3"),
    Component("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok"),
    Component("kube-apiserver", "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"),
    Component("kube-controller-manager", "kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    Component("kube-scheduler", "kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"),
    Component("kubectl", "kubernetes", "k8s.io/kubernetes/cmd/kubectl"),
)


def kubernetes_version() -> str:
    """The pinned Kubernetes release, such as `v1.35.8`."""
    found = re.search(r"k8s\.io/kubernetes (v[\d.]+)", (HERE / "kubernetes" / "go.mod").read_text())
    assert found, "kubernetes/go.mod requires k8s.io/kubernetes"
    return found[1]


def build_flags(component: Component) -> tuple[str, ...]:
    """The flags of `go build`; two packages at a time keep the peak of memory near 2 GB."""
    link = ["-s", "-w"]
    if component.module == "kubernetes":  # otherwise the server calls itself v0.0.0
        version = kubernetes_version()
        major, minor = version.removeprefix("v").split(".")[:2]
        stamp = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
        link += [f"-X k8s.io/component-base/version.{name}={value}" for name, value in stamp.items()]
    return ("-p", "2", "-trimpath", "-buildvcs=false", "-mod=readonly", f"-ldflags={' '.join(link)}")


def cache_key() -> str:
    """Names what is built: modules, sums, packages, flags and the kind of machine."""
    recipe = [(*dataclasses.astuple(component), *build_flags(component)) for component in COMPONENTS]
    digest = hashlib.sha256(json.dumps([platform.system(), platform.machine(), recipe]).encode())
    for module in MODULES:
        for name in ("go.mod", "go.sum"):
            digest.update((HERE / module / name).read_bytes())
    return f"{kubernetes_version()}-{digest.hexdigest()[:12]}"


def cache_root() -> Path:
    """Where builds are kept on this machine."""
    return Path(os.environ.get("DOVETAIL_E2E_CACHE") or Path.home() / ".cache" / "dovetail-e2e")


def binaries_dir() -> Path:
    """Where the binaries of the present recipe are, or will be."""
    return cache_root() / cache_key()


def is_built() -> bool:
    """Whether every binary of the present recipe is there; the directory appears complete or not at all."""
    return all(os.access(binaries_dir() / component.name, os.X_OK) for component in COMPONENTS)


def is_required() -> bool:
    """Whether missing binaries are a failure (in CI) or a reason to skip (on a desk)."""
    return any(os.environ.get(name, "") not in {"", "0", "false"} for name in ("CI", "DOVETAIL_E2E_REQUIRED"))


def say(line: str) -> None:
    """Report progress at once, also into a pipe."""
    sys.stdout.write(f"e2e-binaries: {line}\n")
    sys.stdout.flush()


@contextlib.contextmanager
def one_builder(root: Path) -> Iterator[None]:
    """Let a second builder on this machine wait for the first instead of doing its work again."""
    root.mkdir(parents=True, exist_ok=True)
    with (root / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another build is running; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build(component: Component, into: Path) -> None:
    """Compile one component, statically, against the pinned module graph."""
    command = ["go", "build", *build_flags(component), "-o", str(into / component.name), component.package]
    environment = os.environ | {"CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": ""}
    subprocess.run(command, cwd=HERE / component.module, env=environment, check=True)


def build_all() -> None:
    """Build every component beside the final place, then move the whole into it."""
    began = time.monotonic()
    target = binaries_dir()
    with tempfile.TemporaryDirectory(prefix=".building-", dir=cache_root()) as scratch:
        into = Path(scratch) / "bin"
        into.mkdir()
        for number, component in enumerate(COMPONENTS, start=1):
            started = time.monotonic()
            say(f"[{number}/{len(COMPONENTS)}] {component.name} ...")
            build(component, into)
            size = (into / component.name).stat().st_size / 1e6
            say(f"[{number}/{len(COMPONENTS)}] {component.name}: {size:.0f} MB in {time.monotonic() - started:.0f} s")
        shutil.rmtree(target, ignore_errors=True)  # an incomplete one, or `is_built` would have said so
        into.rename(target)
    say(f"built in {time.monotonic() - began:.0f} s: {target}")


def main() -> int:
    """Build unless built. Exit 0 without Go on a desk, where the suite then skips; 1 where it may not skip."""
    if is_built():
        say(f"up to date: {binaries_dir()}")
        return 0
    if shutil.which("go") is None:
        say("Go is not installed (https://go.dev/dl, 1.26 or newer); the control plane cannot be built.")
        say("the e2e suite may not be skipped here: failing" if is_required() else "the e2e suite will be skipped")
        return 1 if is_required() else 0
    say(f"first run on this machine: building {kubernetes_version()}; this takes about ten minutes on two cores")
    try:
        with one_builder(cache_root()):
            if not is_built():
                build_all()
    except subprocess.CalledProcessError as failure:
        say(f"go build failed with exit code {failure.returncode}; its words are above")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
