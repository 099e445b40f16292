"""`dovetail what-if`: the plan of a cluster before and after a change of its NodePools. Read-only."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from dovetail.cli.safe_output import echo
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
    from dovetail.cli.simulation.comparison import Row
    from dovetail.core.disruption.planner import PassPlan
    from dovetail.model.kube_object import Fault
    from dovetail.model.snapshot import Snapshot

SetOption = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Change a field: spec.PATH of every NodePool, or nodepool/NAME.spec.PATH; repeatable.",
        show_default=False,
    ),
]
ForOption = Annotated[
    str | None,
    typer.Option(
        "--for", metavar="DURATION", help="Also simulate this much time with and without the change, such as 24h."
    ),
]
UntilStableOption = Annotated[
    bool,
    typer.Option("--until-stable", help="Also compare the states in which nothing more changes, as plan does."),
]


@with_few_settings(*DECIDING)
def what_if(  # noqa: PLR0913 - one parameter an option
    *,
    sets: SetOption,
    snapshot: SnapshotOption = None,
    until_stable: UntilStableOption = False,
    lasts: ForOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: DocumentOutputOption = OutputFormat.TEXT,
    settings: Settings,
) -> None:
    """Show how a change of NodePools would change the plan: commands, nodes, cost, evictions, and what blocks nodes.

    The change is applied to a copy of the NodePools, as the API server would store it; nothing is written. Several
    settings apply together, and each that changes nothing is named, with the cause. Invalid values are reported as by
    dovetail validate, with exit code 2.

    [bold]Examples[/bold]
      dovetail what-if --set spec.disruption.consolidateAfter=5m
      dovetail what-if --set nodepool/web.spec.disruption.consolidateAfter=1h
      dovetail what-if --set 'spec.disruption.budgets[0].nodes=20%' --for 24h
      dovetail what-if --snapshot c.json.gz --set spec.limits.cpu=9 --until-stable
    """
    from dovetail.cli.plan import play
    from dovetail.cli.simulation.nodepool_settings import change_nodepools
    from dovetail.cli.snapshot_source import context_of, fail_without_catalogs, read_snapshot
    from dovetail.cli.view.what_if import WhatIf, print_what_if
    from dovetail.core.disruption.planner import plan_pass
    from dovetail.core.explain.plan_comparison import compare_plans
    from dovetail.sim.scenario.parsing import ScenarioInvalid

    seconds = _seconds(lasts)
    read = read_snapshot(snapshot, kubeconfig, context, settings)
    try:
        changed = change_nodepools(read, sets)
    except ScenarioInvalid as error:
        _fail_with(error.faults)
    for warning in changed.warnings:
        echo(f"Warning: {warning}", err=True)

    def planned(cluster: "Snapshot") -> "PassPlan":
        return plan_pass(context_of(cluster, settings), thorough=True)

    before, after = planned(read), planned(changed.snapshot)
    found = WhatIf(
        cluster=read,
        changed=changed,
        before=before,
        after=after,
        comparison=compare_plans(before, after, read),
        without={text: compare_plans(planned(one), after, read) for text, one in _without_each(read, sets)},
        until_stable=[play(each, settings) for each in (read, changed.snapshot)] if until_stable else [],
        simulated=_simulate(read, changed.snapshot, lasts or "", settings) if seconds else [],
        lasts=lasts or "",
    )
    print_what_if(found, output)
    fail_without_catalogs(read)


def _seconds(lasts: str | None) -> float:
    """The seconds of `--for`; 0 without it."""
    from dovetail.sim.scenario.parsing import PositiveSpan

    try:
        return PositiveSpan(lasts).seconds if lasts is not None else 0.0
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--for") from None


def _fail_with(faults: "Iterable[Fault]") -> NoReturn:
    for fault in faults:
        echo(f"Error: {fault}", err=True)
    raise typer.Exit(2)


def _without_each(read: "Snapshot", sets: list[str]) -> "Iterator[tuple[str, Snapshot]]":
    """The cluster without each of several settings, but with all others, to see what each one contributes."""
    from dovetail.cli.simulation.nodepool_settings import change_nodepools
    from dovetail.sim.scenario.parsing import ScenarioInvalid

    different = dict.fromkeys(sets)
    for text in different if len(different) > 1 else ():
        try:
            yield text, change_nodepools(read, [each for each in sets if each != text]).snapshot
        except ScenarioInvalid:
            continue  # the others are valid only together with this one


def _simulate(before: "Snapshot", after: "Snapshot", lasts: str, settings: Settings) -> "list[Row]":
    from dovetail.cli.progress import progress_bar
    from dovetail.cli.simulation.onward import simulate_onward
    from dovetail.cli.simulation.runner import SimulationFailed
    from dovetail.cli.snapshot_source import fail, fail_unless_playable

    fail_unless_playable(before)
    try:
        with progress_bar() as show:
            return simulate_onward(
                before, after, lasts, settings, lambda done: show(f"simulating {lasts} twice", done / 2)
            )
    except SimulationFailed as error:
        fail(str(error))
