"""Builds what the e2e suite runs from Go modules, once per machine: the control plane, Karpenter as a peer, Helm.

The versions are those of the go.mod files in the directories beside this script; go.sum pins every byte. Each of them
lands in `$DOVETAIL_E2E_CACHE/<key>` (default `~/.cache/dovetail-e2e`). A key follows from its modules and the recipe
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
ENVIRONMENT = {"CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": ""}


@dataclasses.dataclass(frozen=True, slots=True)
class Component:
    """One binary: the module directory it is built in, and the main package."""

    name: str
    module: str
    package: str  # "." is the directory's own program


@dataclasses.dataclass(frozen=True, slots=True)
class Recipe:
    """What is built together into one directory; `pinned` is the module whose version names the directory."""

    title: str
    pinned: str
    modules: tuple[str, ...]
    components: tuple[Component, ...]
    manifests: tuple[str, ...] = ()


CONTROL_PLANE = Recipe(
    "the control plane",
    "k8s.io/kubernetes",
    ("etcd", "kwok", "kubernetes"),
    (  # The small ones first: a machine that cannot build at all says so within seconds.
        Component("etcd", "etcd", "go.etcd.io/etcd/server/v3"),
        Component("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok"),
        Component("kube-apiserver", "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"),
        Component("kube-controller-manager", "kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"),
        Component("kube-scheduler", "kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"),
        Component("kubectl", "kubernetes", "k8s.io/kubernetes/cmd/kubectl"),
    ),
)
KARPENTER = Recipe(
    "Karpenter",
    "sigs.k8s.io/karpenter",
    ("karpenter",),
    (
        Component("karpenter", "karpenter", "sigs.k8s.io/karpenter/kwok"),
        Component("karpenter-regression", "karpenter", "sigs.k8s.io/karpenter/test/suites/regression"),
    ),
    manifests=("pkg/apis/crds", "kwok/apis/crds"),  # copied into `crds`
)
DECODER = Recipe(
    "the decoder of Karpenter's types",
    "github.com/aws/karpenter-provider-aws",
    ("decode",),
    (Component("decode", "decode", "."),),
    manifests=("pkg/apis/crds",),
)
HELM = Recipe("Helm", "helm.sh/helm/v3", ("helm",), (Component("helm", "helm", "helm.sh/helm/v3/cmd/helm"),))
RECIPES = (CONTROL_PLANE, KARPENTER, DECODER, HELM)


def version(recipe: Recipe = CONTROL_PLANE) -> str:
    """The pinned release, such as `v1.35.8`."""
    text = (HERE / recipe.modules[-1] / "go.mod").read_text()
    found = re.search(rf"{re.escape(recipe.pinned)} (v[\d.]+)", text)
    assert found, f"{recipe.modules[-1]}/go.mod requires {recipe.pinned}"
    return found[1]


def build_flags(component: Component) -> tuple[str, ...]:
    """The flags of `go build`; two packages at a time keep the peak of memory near 2 GB."""
    link = ["-s", "-w"]
    if component.module == "kubernetes":  # otherwise the server calls itself v0.0.0
        release = version()
        major, minor = release.removeprefix("v").split(".")[:2]
        stamp = {"gitVersion": release, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
        link += [f"-X k8s.io/component-base/version.{name}={value}" for name, value in stamp.items()]
    if component.module == "helm":  # otherwise it renders for Kubernetes v1.20
        major, minor = version().removeprefix("v").split(".")[:2]
        stamp = {"pkg/chartutil.k8sVersionMajor": major, "pkg/chartutil.k8sVersionMinor": minor}
        link += [f"-X helm.sh/helm/v3/{name}={value}" for name, value in stamp.items()]
    return ("-p", "2", "-trimpath", "-buildvcs=false", "-mod=readonly", f"-ldflags={' '.join(link)}")


def cache_key(recipe: Recipe = CONTROL_PLANE) -> str:
    """Names what is built: modules, sums, packages, flags and the kind of machine."""
    steps = [(*dataclasses.astuple(component), *build_flags(component)) for component in recipe.components]
    recipe_text = json.dumps([platform.system(), platform.machine(), [*steps, *recipe.manifests]])
    digest = hashlib.sha256(recipe_text.encode())
    for module in recipe.modules:
        for file in sorted((HERE / module).glob("*.go")) + [HERE / module / name for name in ("go.mod", "go.sum")]:
            digest.update(file.read_bytes())
    prefix = {CONTROL_PLANE: "", DECODER: "decode-", HELM: "helm-"}.get(recipe, "karpenter-")
    return f"{prefix}{version(recipe)}-{digest.hexdigest()[:12]}"


def cache_root() -> Path:
    """Where builds are kept on this machine."""
    return Path(os.environ.get("DOVETAIL_E2E_CACHE") or Path.home() / ".cache" / "dovetail-e2e")


def binaries_dir(recipe: Recipe = CONTROL_PLANE) -> Path:
    """Where the binaries of a recipe are, or will be."""
    return cache_root() / cache_key(recipe)


def is_built(recipe: Recipe = CONTROL_PLANE) -> bool:
    """Whether every binary of a recipe is there; the directory appears complete or not at all."""
    return all(os.access(binaries_dir(recipe) / component.name, os.X_OK) for component in recipe.components)


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
    verb = ("test", "-c") if "/test/" in component.package else ("build",)
    command = ["go", *verb, *build_flags(component), "-o", str(into / component.name), component.package]
    subprocess.run(command, cwd=HERE / component.module, env=os.environ | ENVIRONMENT, check=True)


def copy_manifests(recipe: Recipe, into: Path) -> None:
    """Copy the CRDs of the pinned module beside its binaries."""
    command = ["go", "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", recipe.pinned]
    listed = subprocess.run(
        command, cwd=HERE / recipe.modules[-1], env=os.environ | ENVIRONMENT, check=True, capture_output=True, text=True
    )
    into.mkdir()
    for directory in recipe.manifests:
        for each in sorted(Path(listed.stdout.strip(), directory).glob("*.yaml")):
            (into / each.name).write_bytes(each.read_bytes())  # the module's own files are read-only


def build_all(recipe: Recipe) -> None:
    """Build every component beside the final place, then move the whole into it."""
    began = time.monotonic()
    target = binaries_dir(recipe)
    count = len(recipe.components)
    with tempfile.TemporaryDirectory(prefix=".building-", dir=cache_root()) as scratch:
        into = Path(scratch) / "bin"
        into.mkdir()
        for number, component in enumerate(recipe.components, start=1):
            started = time.monotonic()
            say(f"[{number}/{count}] {component.name} ...")
            build(component, into)
            size = (into / component.name).stat().st_size / 1e6
            say(f"[{number}/{count}] {component.name}: {size:.0f} MB in {time.monotonic() - started:.0f} s")
        if recipe.manifests:
            copy_manifests(recipe, into / "crds")
        shutil.rmtree(target, ignore_errors=True)  # an incomplete one, or `is_built` would have said so
        into.rename(target)
    say(f"built in {time.monotonic() - began:.0f} s: {target}")


def main() -> int:
    """Build unless built. Exit 0 without Go on a desk, where the suite then skips; 1 where it may not skip."""
    return max(build_once(recipe) for recipe in RECIPES)


def build_once(recipe: Recipe) -> int:
    """Build one recipe unless it is built; the exit code."""
    if is_built(recipe):
        say(f"up to date: {binaries_dir(recipe)}")
        return 0
    if shutil.which("go") is None:
        say(f"Go is not installed (https://go.dev/dl, 1.26 or newer); {recipe.title} cannot be built.")
        say("the e2e suite may not be skipped here: failing" if is_required() else "the e2e suite will be skipped")
        return 1 if is_required() else 0
    say(f"first run on this machine: building {recipe.title} {version(recipe)}; this takes minutes on two cores")
    try:
        with one_builder(cache_root()):
            if not is_built(recipe):
                build_all(recipe)
    except subprocess.CalledProcessError as failure:
        say(f"go failed with exit code {failure.returncode}; its words are above")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
