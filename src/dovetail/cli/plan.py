"""`dovetail plan`: what the next disruption pass would do, and why it leaves the other nodes alone. Read-only."""

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
    """Show which nodes the next disruption pass would remove or replace, and what prevents it for every other node.

    The plan is computed by the controller's own code, including budgets and the second check of consolidation. Needs
    only get and list, and writes nothing.

    [bold]Examples[/bold]
      dovetail plan                                    the current context
      dovetail plan --snapshot cluster.json.gz -o json
    """
    from dovetail.cli.snapshot_source import context_of, read_snapshot
    from dovetail.cli.view.plan import print_plan
    from dovetail.core.disruption.planner import plan_pass

    read = read_snapshot(snapshot, kubeconfig, context, settings)
    print_plan(plan_pass(context_of(read, settings), thorough=True), read, output)
