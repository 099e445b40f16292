"""`dovetail adopt`: whether a cluster that Karpenter runs is ready for Dovetail, and the steps to switch. Read-only.

Exit code 0: ready; 1: not ready; 2: not known, or the cluster cannot be read.
"""

import asyncio
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.settings_options import DECIDING, with_few_settings
from dovetail.cli.snapshot_source import (
    ContextOption,
    DocumentOutputOption,
    KubeconfigOption,
    OutputFormat,
    SnapshotOption,
)
from dovetail.settings import Settings

if TYPE_CHECKING:
    from dovetail.core.adoption.facts import AdoptionFacts
    from dovetail.model.snapshot import Snapshot

_IMAGE = f"dovetail:{version('dovetail')}"
ImageOption = Annotated[
    str, typer.Option("--image", metavar="IMAGE", help="The image of Dovetail, for the printed commands.")
]


@with_few_settings(*DECIDING)
def adopt(  # noqa: PLR0913 - one parameter an option
    *,
    snapshot: SnapshotOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    image: ImageOption = _IMAGE,
    output: DocumentOutputOption = OutputFormat.TEXT,
    settings: Settings,
) -> None:
    """Check whether a cluster that Karpenter runs is ready for Dovetail, and print the steps to switch and back.

    Reports objects, settings, CRDs, permissions and drift, simulates the first hour of Dovetail on a copy of the
    cluster, and compares it with what Karpenter marks. Writes nothing. Exit code 0: ready; 1: not ready; 2: not known,
    or the cluster cannot be read.

    [bold]Examples[/bold]
      dovetail adopt                                     the current context
      dovetail adopt --snapshot cluster.json.gz -o json
    """
    from dovetail.cli.progress import progress_bar
    from dovetail.cli.snapshot_source import context_of, read_snapshot
    from dovetail.cli.view.adopt import print_adoption
    from dovetail.core.adoption.report import build_report
    from dovetail.core.disruption.planner import plan_pass
    from dovetail.wiring.adoption_karpenter import decision_settings

    with progress_bar() as show:
        show("reading the cluster", 0.0)
        if snapshot is None:
            settings = decision_settings(settings, _variables(kubeconfig, context))
        read = read_snapshot(snapshot, kubeconfig, context, settings)
        facts = _facts(read, snapshot, kubeconfig, context, settings.cluster_name)
        facts = _with_first_hours(facts, settings, lambda done: show("simulating the first hour", done))
        plan = plan_pass(context_of(read, settings), thorough=True)
    report = build_report(facts, plan, image)
    print_adoption(report, output)
    if report.ready is not True:
        raise typer.Exit(1 if report.ready is False else 2)


def _variables(kubeconfig: Path | None, context: str | None) -> Mapping[str, str]:
    """The variables of Karpenter's Deployment; none if they cannot be read, which the next read reports."""
    from dovetail.ports.errors import WorldError
    from dovetail.wiring.adoption_karpenter import read_variables

    try:
        return asyncio.run(read_variables(kubeconfig, context))
    except WorldError:
        return {}


def _facts(
    read: "Snapshot", source: str | None, kubeconfig: Path | None, context: str | None, cluster_name: str
) -> "AdoptionFacts":
    from dovetail.cli.snapshot_source import fail
    from dovetail.ports.errors import WorldError
    from dovetail.wiring.adoption import facts_of_snapshot, read_facts

    if source is not None:
        return facts_of_snapshot(read)
    try:
        return asyncio.run(read_facts(kubeconfig, context, read, cluster_name))
    except WorldError as error:
        fail(str(error))


def _with_first_hours(facts: "AdoptionFacts", settings: Settings, progress: Callable[[float], None]) -> "AdoptionFacts":
    from dataclasses import replace

    from dovetail.cli.simulation.first_hour import simulate_first_hours
    from dovetail.cli.simulation.runner import SimulationFailed
    from dovetail.core.adoption.facts import UncheckedPart

    why = "there is no NodePool" if not facts.snapshot.nodepools else ""
    if facts.snapshot.missing_catalogs:
        why = "instance types are missing, see below"
    try:
        if not why:
            return replace(facts, first_hours=simulate_first_hours(facts.snapshot, settings, progress))
    except SimulationFailed as error:
        why = f"the simulation failed: {error}"
    return replace(facts, unchecked=(*facts.unchecked, UncheckedPart(what="First hour", why=why)))
