"""`dovetail explain`: what prevents disruption of a node, what a NodePool allows, what protects a pod. Read-only."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from dovetail.cli.completion import complete_name, complete_resource
from dovetail.cli.history_source import HistoryPlace, HistoryUnavailable, find_source
from dovetail.cli.resource_names import AllNamespacesOption, NamespaceOption, ResourceKind, parse_resource
from dovetail.cli.settings_options import DECIDING, with_few_settings
from dovetail.cli.snapshot_source import (
    ContextOption,
    KubeconfigOption,
    OutputFormat,
    OutputOption,
    SnapshotOption,
    context_of,
    fail,
    fail_unknown,
    fail_without_catalogs,
    read_snapshot,
)
from dovetail.cli.watch import WatchOption, follow_answers, require_live
from dovetail.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from dovetail.core.disruption.pass_context import PassContext
    from dovetail.model.kube_object import Key
    from dovetail.model.snapshot import Snapshot


@with_few_settings(*DECIDING, "repair_without_block")
def explain(  # noqa: PLR0913 - one parameter an option
    resource: Annotated[
        str,
        typer.Argument(
            metavar="KIND[/NAME]",
            help="The kind of object: node (no), nodeclaim (nc), nodepool (np) or pod (po), singular or plural.",
            show_default=False,
            autocompletion=complete_resource,
        ),
    ],
    name: Annotated[
        str,
        typer.Argument(
            help="The name of the object, unless it follows the kind after a slash; NAMESPACE/NAME for a pod.",
            show_default=False,
            autocompletion=complete_name,
        ),
    ] = "",
    *,
    full: Annotated[
        bool, typer.Option("--full", help="For a node: every obstacle of every method, numbered, with its end.")
    ] = False,
    namespace: NamespaceOption = "",
    all_namespaces: AllNamespacesOption = False,
    snapshot: SnapshotOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: OutputOption = OutputFormat.TEXT,
    watch: WatchOption = False,
    settings: Settings,
) -> None:
    """Answer why a node is still there and when it can leave, why a pod is pending, and what a NodePool allows.

    The first line is the answer. For a node it is followed by what keeps it, each obstacle once, and by one line for
    each disruption method; --full lists every obstacle of every method. For a NodePool: its budgets, which of them are
    in force and until when. For a pod: its node or why it is pending, and what protects it from eviction. For a node
    that is gone: when and why it was removed, from the history of the leading controller (see `dovetail history`) or
    --ledger. Needs only get and list for what exists.

    [bold]Examples[/bold]
      dovetail explain node ip-10-0-3-17
      dovetail explain node ip-10-0-3-17 --full
      dovetail explain np/general --snapshot cluster.json.gz
      dovetail explain pod build-7 -n ci -o yaml
    """
    kind, named = parse_resource(resource, name)
    require_live(watch, snapshot=snapshot)
    place = HistoryPlace(kubeconfig=kubeconfig, context=context) if snapshot is None else None

    def answer(taken: "Snapshot") -> None:
        read = context_of(taken, settings)
        if kind is ResourceKind.POD:
            where = PodScope(namespace or _namespace_of(snapshot, kubeconfig, context), every=all_namespaces)
            _pod(_pod_key(named, where, read), read, output)
        elif kind is ResourceKind.NODEPOOL:
            _nodepool(named, read, output)
        else:
            _node(named, read, output, (settings, place), full=full)

    if watch:
        follow_answers(answer, (kubeconfig, context), settings)
    else:
        if kind is ResourceKind.NODE and place is not None and settings.ledger:
            _answer_without_cluster(named, output, settings, place)
        answer(read_snapshot(snapshot, kubeconfig, context, settings))


class PodScope(NamedTuple):
    """The namespace of a pod whose name has none; `every`: any namespace."""

    namespace: str
    every: bool


def _namespace_of(snapshot: str | None, kubeconfig: Path | None, context: str | None) -> str:
    """Return the namespace of the kubeconfig context, as kubectl does; `default` for a snapshot."""
    if snapshot is not None:
        return "default"
    from dovetail.kube.cluster_access import find_access

    return find_access(kubeconfig, context, os.environ).namespace


def _pod_key(name: str, scope: PodScope, context: "PassContext") -> "Key":
    from dovetail.model.kube_object import Key

    before, slash, own = name.rpartition("/")
    if slash or not scope.every:
        return Key(before if slash else scope.namespace, own)
    found = sorted({key for key in _pod_keys(context) if key.name == own}, key=str)
    if len(found) > 1:
        fail(f"{len(found)} pods have the name {own!r}: {', '.join(map(str, found[:5]))}; choose one with -n")
    return found[0] if found else Key("", own)


def _pod_keys(context: "PassContext") -> "Iterator[Key]":
    for node in context.snapshot.nodes:
        yield from (pod.key for pod in node.pods)
    yield from (pod.key for pod in context.snapshot.unbound_pods)


def _node(
    name: str, context: "PassContext", output: str, history: "tuple[Settings, HistoryPlace | None]", *, full: bool
) -> None:
    from dovetail.cli.view.explain import print_node
    from dovetail.core.explain.node import explain_node

    nodes = context.snapshot.nodes
    for node in nodes:
        if name == node.name or (node.claim is not None and name == node.claim.name):
            print_node(explain_node(node, context), output, full=full)
            fail_without_catalogs(context.snapshot, (node.nodepool_name,))
            return
    _fail_if_unreadable("Node", name, context)
    looked = _print_removed(name, context.snapshot.at, output, history)
    if looked:
        fail_unknown("node", name, (node.name for node in nodes), looked)


def _print_removed(name: str, now: "datetime", output: str, history: "tuple[Settings, HistoryPlace | None]") -> str:
    """Print which decision removed a node that is gone; returns where it was looked for if there is none."""
    from dovetail.cli.view.removed_node import print_removed_node, removal_of
    from dovetail.model.instants import stamp

    settings, place = history
    if place is None and not settings.ledger:
        return "a snapshot has no history; name a ledger file with --ledger"
    try:
        source = find_source(place or HistoryPlace(), settings)
        # Savings are counted to the time of the answer; but the ledger may be newer than a snapshot.
        windows: tuple[dict[str, str], ...] = ({"until": stamp(now)}, {})
        histories = (source.history({"node": name, **window})["decisions"] for window in windows)
        found = next(filter(None, (removal_of(name, each) for each in histories)), None)
    except HistoryUnavailable as error:
        return f"its history cannot be read: {error}"
    if found is None:
        return f"{source} has no decision that removed it"
    print_removed_node(name, found, now, output)
    return ""


def _answer_without_cluster(name: str, output: str, settings: Settings, place: "HistoryPlace") -> None:
    """Answer from the ledger file alone, and end the command, if no cluster is configured."""
    from datetime import UTC, datetime

    from dovetail.kube.cluster_access import find_access
    from dovetail.kube.endpoint import AccessFault

    try:
        find_access(place.kubeconfig, place.context, os.environ)
    except AccessFault as fault:
        looked = _print_removed(name, datetime.now(UTC), output, (settings, place))
        if looked:
            fail(f"{fault}\n{looked[:1].upper()}{looked[1:]}.")
        raise typer.Exit from None


def _nodepool(name: str, context: "PassContext", output: str) -> None:
    from dovetail.cli.view.explain import print_pool
    from dovetail.core.explain.nodepool import explain_pool

    pools = context.snapshot.nodepools
    if name not in pools:
        _fail_if_unreadable("NodePool", name, context)
        fail_unknown("nodepool", name, pools)
    print_pool(explain_pool(pools[name], context), output)
    fail_without_catalogs(context.snapshot, (name,))


def _pod(key: "Key", context: "PassContext", output: str) -> None:
    from dovetail.cli.view.explain import print_pod
    from dovetail.core.explain.pod import explain_pod, find_pod

    found = find_pod(context.snapshot, key)
    if found is None:
        _fail_if_unreadable("Pod", str(key), context)
        fail_unknown("pod", str(key), map(str, _pod_keys(context)))
    print_pod(explain_pod(*found, context), output)
    _, node = found
    fail_without_catalogs(context.snapshot, (node.nodepool_name,) if node is not None else None)


def _fail_if_unreadable(kind: str, name: str, context: "PassContext") -> None:
    """End the command with the fault of the object if it exists but cannot be decoded."""
    from dovetail.core.disruption.events import unreadable_consequence

    for bad in context.snapshot.unreadable:
        if (bad.kind, str(bad.key)) == (kind, name):
            fail(f"{kind} {name}: {unreadable_consequence(bad)}")
