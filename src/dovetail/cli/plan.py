"""`dovetail plan`: what the next pass would do, and why not more. Reads only."""

from dovetail.cli.settings_options import DECIDING, with_few_settings
from dovetail.cli.snapshot_source import ContextOption, KubeconfigOption, OutputFormat, OutputOption, SnapshotOption
from dovetail.settings import Settings


@with_few_settings(*DECIDING)
def plan(
    *,
    snapshot: SnapshotOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: OutputOption = OutputFormat.TEXT,
    settings: Settings,
) -> None:
    """List every command the next pass starts and what it saves, and for every other node what stands in the way.

    This is the plan of the controller itself: the commands that start together, with budgets shared among them, and
    after the validation of consolidation 15 seconds later. Needs only get and list: nothing is written, neither to the
    cluster nor anywhere else.

    [bold]Examples[/bold]
      dovetail plan                                    the current context
      dovetail plan --snapshot cluster.json.gz -o json
    """
    from dovetail.cli.snapshot_source import context_of, read_snapshot
    from dovetail.cli.view.plan import print_plan
    from dovetail.core.disruption.planner import plan_pass

    read = read_snapshot(snapshot, kubeconfig, context, settings)
    print_plan(plan_pass(context_of(read, settings), thorough=True), read, output)
