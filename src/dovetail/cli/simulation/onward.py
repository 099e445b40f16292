"""Simulates a cluster onward from its snapshot, with and without a change, for `dovetail what-if --for`."""

from pathlib import Path
from tempfile import TemporaryDirectory

from dovetail.cli.simulation.comparison import Row, compare
from dovetail.cli.simulation.runner import RunsProgress, run_here
from dovetail.cli.simulation.snapshot_scenario import only_managed, snapshot_scenario
from dovetail.cli.simulation.variants import Variant
from dovetail.manifest.snapshot_file import snapshot_bytes
from dovetail.model.snapshot import Snapshot
from dovetail.settings import Settings

NOW, CHANGED = "now", "changed"


def simulate_onward(
    before: Snapshot, after: Snapshot, lasts: str, settings: Settings, progress: RunsProgress
) -> list[Row]:
    """The figures of both clusters after some time. The changed one has its changes from the start."""
    with TemporaryDirectory(prefix="dovetail-") as folder:
        variants = []
        for name, snapshot in ((NOW, only_managed(before)), (CHANGED, only_managed(after))):
            file = Path(folder) / f"{name}.json"
            file.write_bytes(snapshot_bytes(snapshot))  # with its NodePools, so that drift from the change is kept
            variants.append(Variant(name, 0, snapshot_scenario(snapshot, file, lasts, settings)))
        outcomes = run_here(variants, (), progress)
    return compare(variants, [outcome.report for outcome in outcomes])
