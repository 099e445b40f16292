"""Prints the verdict on a pod: why it is pending, by constraint and by NodePool, or what prevents its eviction."""

from datetime import datetime
from typing import Any

from rich.console import Console
from rich.text import Text

from dovetail.cli.view.printing import plain_table
from dovetail.cli.view.verdict import group_document
from dovetail.core.verdict_wording import mismatch_words, pod_line
from dovetail.core.wording import sentence
from dovetail.model.verdict import PodOutcome, PodVerdict


def pod_verdict_document(verdict: PodVerdict, now: datetime) -> dict[str, Any]:
    """Build the document of the verdict on a pod."""
    failure = verdict.refusal.scheduling if verdict.refusal is not None else None
    constraints, pools = (failure.constraints, failure.nodepools) if failure is not None else ((), ())
    return {
        "line": pod_line(verdict, now),
        "outcome": str(verdict.outcome),
        "node": verdict.node or None,
        "nodepool": verdict.nodepool or None,
        "obstacles": [group_document(each, now) for each in verdict.obstacles],
        "nodes": failure.nodes if failure is not None else None,
        "constraints": [{"reason": each.reason, "nodes": each.nodes} for each in constraints],
        "nodepools": [{"nodepool": each.nodepool, "reason": each.reason} for each in pools],
        "labels": [
            {"expression": each.expression, "nodes": each.nodes, "found": list(each.found)} for each in verdict.labels
        ],
        "resources": [
            {"resource": each.resource, "requested": each.requested, "mostFree": each.most_free}
            for each in verdict.resources
        ],
    }


def draw_pod_verdict(console: Console, verdict: PodVerdict, now: datetime) -> None:
    """Draw the verdict in one line."""
    colour = "bold red" if verdict.outcome is PodOutcome.UNSCHEDULABLE else "bold yellow"
    if verdict.outcome is PodOutcome.RUNS:
        colour = "bold yellow" if verdict.obstacles else "bold green"
    console.print(Text(f"{sentence(pod_line(verdict, now))}.", style=colour))


def draw_scheduling(console: Console, verdict: PodVerdict) -> None:
    """Draw what the nodes have in place of what the pod requires, and why no NodePool helps."""
    assert verdict.refusal is not None, "only called for unschedulable pods"
    failure = verdict.refusal.scheduling
    assert failure is not None, "only called for unschedulable pods"
    if verdict.labels or verdict.resources:
        table = plain_table("REQUIRES", "NODES")
        for label in verdict.labels:
            expression, _, have = mismatch_words(label).rpartition(": ")
            table.add_row(expression, have)
        for each in verdict.resources:
            table.add_row(f"{each.resource} {each.requested}", f"at most {each.most_free} free on a node")
        console.print()
        console.print(table)
    if failure.nodepools:
        table = plain_table("NODEPOOL", "WHY NO NEW NODE")
        for pool in failure.nodepools:
            table.add_row(pool.nodepool, pool.reason)
        console.print()
        console.print(table)
