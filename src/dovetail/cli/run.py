"""`dovetail run`: the controller process.

Connects to the cluster, serves metrics, probes and dashboard, waits for leadership and runs the controllers until a
signal arrives or the Lease is lost. Configuration errors and missing custom resources end it at once with exit code 2.
"""

import asyncio
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dovetail.cli.safe_output import echo
from dovetail.cli.settings_options import with_settings
from dovetail.settings import Settings

if TYPE_CHECKING:
    from dovetail.ports.cluster import Cluster


@with_settings
def run(
    *,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            "--kubeconfig",
            help="Path to a kubeconfig. Default: $KUBECONFIG, the pod's service account or ~/.kube/config.",
        ),
    ] = None,
    context: Annotated[str | None, typer.Option("--context", help="The kubeconfig context to use.")] = None,
    settings: Settings,
) -> None:
    """Run the controllers against a cluster until stopped.

    Launches nodes for pending pods, terminates deleted nodes, repairs unhealthy nodes and handles interruptions.
    With --disruption on, it also disrupts expired, drifted, empty and underutilized nodes; see dovetail plan first.
    With --dry-run it writes nothing and reports what it would do; permission to get, list and watch is enough.
    With several replicas, the holder of a Lease acts and the others stand by. SIGTERM stops it in order.
    Install the custom resources first:  dovetail crds | kubectl apply --server-side -f -
    """
    from dovetail.observe.log import LogSettings, configure

    form: Literal["json", "text"] = "text" if settings.log_format == "text" else "json"
    configure(LogSettings(level=settings.log_level, form=form), sys.stderr)
    raise typer.Exit(asyncio.run(_run(kubeconfig, context, settings)))


async def _run(kubeconfig: Path | None, context: str | None, settings: Settings) -> int:
    import logging

    from dovetail.cli.dashboard_api import serve_dashboard
    from dovetail.cloud.kwok.catalog import InstanceTypesInvalid
    from dovetail.dashboard.address import AddressUnsafe
    from dovetail.kube.endpoint import AccessFault
    from dovetail.observe.endpoints import PortUnusable
    from dovetail.ports.errors import Denied
    from dovetail.runtime.leader_term import TermEnd
    from dovetail.wiring.live import endpoints, leader_term, on_cluster, open_leadership
    from dovetail.wiring.providers import ProviderUnusable

    log = logging.getLogger(__name__)
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    try:
        async with (
            on_cluster(kubeconfig, context, settings) as parts,
            endpoints(parts, settings).served(),
            serve_dashboard(parts, settings, (kubeconfig, context)),
        ):
            await _check_access(parts.cluster, settings)
            log.info("dovetail starts", extra={"provider": settings.provider, "dry_run": settings.dry_run})
            async with open_leadership(kubeconfig, context, settings) as leadership:
                ending = await leader_term(parts, settings, stopped, leadership).run()
    except (
        AccessFault,
        AddressUnsafe,
        Denied,
        InstanceTypesInvalid,
        PortUnusable,
        ProviderUnusable,
        CustomResourcesMissing,
    ) as error:
        echo(f"Error: {error}", err=True)
        return 2
    log.info("dovetail stopped", extra={"why": ending})
    return 0 if ending is TermEnd.STOPPED else 1


class CustomResourcesMissing(Exception):
    """The cluster lacks custom resources that the controllers need."""


async def _check_access(cluster: "Cluster", settings: Settings) -> None:
    """Fail if custom resources are missing. An API server that is unavailable is no failure: the controllers retry."""
    from dovetail.model.kinds import EC2_NODE_CLASS, KWOK_NODE_CLASS, NODE_CLAIM, NODE_POOL, Kind
    from dovetail.ports.errors import NotFound, Unavailable

    absent = []
    needed: tuple[Kind[Any], ...] = (
        NODE_POOL,
        NODE_CLAIM,
        EC2_NODE_CLASS if settings.provider == "aws" else KWOK_NODE_CLASS,
    )
    for kind in needed:
        try:
            await cluster.list(kind)
        except NotFound:
            absent.append(f"{kind.plural}.{kind.group}")
        except Unavailable:
            return
    if absent:
        remedy = "install them with:  dovetail crds | kubectl apply --server-side -f -"
        raise CustomResourcesMissing(f"the cluster lacks the custom resources {', '.join(absent)}; {remedy}")
