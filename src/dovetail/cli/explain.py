"""`dovetail explain`: what prevents disruption of a node, what a NodePool allows, what protects a pod. Read-only."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

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
    read_snapshot,
)
from dovetail.settings import Settings

if TYPE_CHECKING:
    from dovetail.core.disruption.pass_context import PassContext


class Subject(StrEnum):
    """The kinds that can be explained."""

    NODE = "node"
    NODEPOOL = "nodepool"
    POD = "pod"


@with_few_settings(*DECIDING, "repair_without_block")
def explain(  # noqa: PLR0913 - one parameter an option
    kind: Annotated[Subject, typer.Argument(help="The kind of object: node, nodepool or pod.", show_default=False)],
    name: Annotated[str, typer.Argument(help="The name of the object; NAMESPACE/NAME for a pod.", show_default=False)],
    *,
    snapshot: SnapshotOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: OutputOption = OutputFormat.TEXT,
    settings: Settings,
) -> None:
    """Explain what prevents the disruption of a node, method by method, and when each obstacle ends.

    For a NodePool: its budgets, which of them are in force and until when. For a pod: its node or why it is pending,
    and what protects it from eviction. Needs only get and list.

    [bold]Examples[/bold]
      dovetail explain node ip-10-0-3-17
      dovetail explain nodepool general --snapshot cluster.json.gz
      dovetail explain pod ci/build-7 -o yaml
    """
    read = context_of(read_snapshot(snapshot, kubeconfig, context, settings), settings)
    if kind is Subject.NODE:
        _node(name, read, output, settings)
    else:
        {Subject.NODEPOOL: _nodepool, Subject.POD: _pod}[kind](name, read, output)


def _node(name: str, context: "PassContext", output: OutputFormat, settings: Settings) -> None:
    from dataclasses import replace

    from dovetail.cli.view.explain import print_node
    from dovetail.core.explain.node import explain_node, explain_repair
    from dovetail.core.lifecycle.repair import RepairTerms

    nodes = context.snapshot.nodes
    for node in nodes:
        if name == node.name or (node.claim is not None and name == node.claim.name):
            terms = RepairTerms(context.snapshot.repair_statements, settings.options)
            repair = explain_repair(node, context.snapshot, terms)
            print_node(replace(explain_node(node, context), repair=repair), output)
            return
    _fail_if_unreadable("Node", name, context)
    fail_unknown("node", name, (node.name for node in nodes))


def _nodepool(name: str, context: "PassContext", output: OutputFormat) -> None:
    from dovetail.cli.view.explain import print_pool
    from dovetail.core.explain.nodepool import explain_pool

    pools = context.snapshot.nodepools
    if name not in pools:
        _fail_if_unreadable("NodePool", name, context)
        fail_unknown("nodepool", name, pools)
    print_pool(explain_pool(pools[name], context), output)


def _pod(name: str, context: "PassContext", output: OutputFormat) -> None:
    from dovetail.cli.view.explain import print_pod
    from dovetail.core.explain.pod import explain_pod, find_pod
    from dovetail.model.kube_object import Key

    namespace, slash, own = name.rpartition("/")
    key = Key(namespace if slash else "default", own)
    found = find_pod(context.snapshot, key)
    if found is None:
        _fail_if_unreadable("Pod", str(key), context)
        bound = (pod for node in context.snapshot.nodes for pod in node.pods)
        fail_unknown("pod", name, (str(pod.key) for pod in (*bound, *context.snapshot.unbound_pods)))
    print_pod(explain_pod(*found, context), output)


def _fail_if_unreadable(kind: str, name: str, context: "PassContext") -> None:
    """End the command with the fault of the object if it exists but cannot be decoded."""
    from dovetail.core.disruption.events import unreadable_consequence

    for bad in context.snapshot.unreadable:
        if (bad.kind, str(bad.key)) == (kind, name):
            fail(f"{kind} {name}: {unreadable_consequence(bad)}")
