"""Shell completion of names from the cluster of the current context: nodes, NodePools, NodeClaims, pods and contexts.

Completion must be quick and silent: it reads only names (PartialObjectMetadata), gives up after `SECONDS`, and any
failure means no suggestion. Options before the cursor are respected: `--kubeconfig`, `--context`, `--namespace`.
"""

import asyncio
import os
from pathlib import Path
from typing import Any

import typer

from dovetail.cli.resource_names import KIND_BY_SPELLING, ResourceKind

SECONDS = 2.0
_PATHS = {
    ResourceKind.NODE: "/api/v1/nodes",
    ResourceKind.NODEPOOL: "/apis/karpenter.sh/v1/nodepools",
    ResourceKind.NODECLAIM: "/apis/karpenter.sh/v1/nodeclaims",
}


def complete_node(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the name of a node, with or without `node/`."""
    return _complete_name(ctx, incomplete, ResourceKind.NODE)


def complete_nodepool(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the name of a NodePool, with or without `nodepool/`."""
    return _complete_name(ctx, incomplete, ResourceKind.NODEPOOL)


def _complete_name(ctx: typer.Context, incomplete: str, kind: ResourceKind) -> list[str]:
    word, slash, begun = incomplete.partition("/")
    if slash:
        return [f"{word}/{name}" for name in _names(ctx, KIND_BY_SPELLING.get(word, kind), begun)]
    return _names(ctx, kind, incomplete)


def complete_resource(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete a kind, or `KIND/NAME` once there is a slash."""
    word, slash, begun = incomplete.partition("/")
    kind = KIND_BY_SPELLING.get(word.lower())
    if not slash:
        return [each for each in ResourceKind if each.startswith(incomplete)]
    return [f"{word}/{name}" for name in _names(ctx, kind, begun)] if kind is not None else []


def complete_name(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the name that follows a kind; that of a pod may begin with its namespace and a slash."""
    kind = KIND_BY_SPELLING.get(str(ctx.params.get("resource") or "").lower())
    return _names(ctx, kind, incomplete) if kind is not None else []


def complete_context(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the name of a context of the kubeconfig."""
    from dovetail.kube.kubeconfig import kubeconfig_files, load

    try:
        files = kubeconfig_files(_path(ctx), os.environ) or (Path.home() / ".kube" / "config",)
        found = load(files, may_miss=False)
        return sorted(name for name in found.contexts if name.startswith(incomplete))
    except Exception:  # noqa: BLE001 - no suggestion is the only answer to any failure
        return []


def _names(ctx: typer.Context, kind: ResourceKind, begun: str) -> list[str]:
    try:
        names = asyncio.run(_read(ctx, kind, begun))
    except Exception:  # noqa: BLE001 - no suggestion is the only answer to any failure
        return []
    return sorted(name for name in names if name.startswith(begun))


async def _read(ctx: typer.Context, kind: ResourceKind, begun: str) -> list[str]:
    from dovetail.kube.cluster_access import find_access
    from dovetail.kube.raw_reader import open_reader
    from dovetail.wiring.system_clock import SystemClock

    async with asyncio.timeout(SECONDS):
        access = find_access(_path(ctx), ctx.params.get("context"), os.environ)
        reader = await open_reader(access, SystemClock())
        try:
            if kind is not ResourceKind.POD:
                return [name async for name in reader.names(_PATHS[kind])]
            before, slash, _ = begun.partition("/")
            namespace = before if slash else ctx.params.get("namespace") or access.namespace
            found = [name async for name in reader.names(f"/api/v1/namespaces/{namespace}/pods")]
            return [f"{namespace}/{name}" for name in found] if slash else found
        finally:
            await reader.aclose()


def _path(ctx: typer.Context) -> Path | None:
    given: Any = ctx.params.get("kubeconfig")
    return Path(given) if given else None
