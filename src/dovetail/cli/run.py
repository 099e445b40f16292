"""`dovetail run`: the controller process."""

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
            "--kubeconfig", help="Path to a kubeconfig. Else KUBECONFIG, the pod's service account, ~/.kube/config."
        ),
    ] = None,
    context: Annotated[str | None, typer.Option("--context", help="The kubeconfig context to use.")] = None,
    settings: Settings,
) -> None:
    """Run the controllers against a cluster until stopped.

    Reads NodePools and pending pods, launches NodeClaims through the provider, and follows each to a working node.
    With --disruption on, it also takes nodes away: expired, drifted, empty, underutilised. Look first: dovetail plan.
    With --dry-run it writes nothing and says what it would do; permission to get, list and watch is enough.
    Several may run: the holder of a Lease acts, the others stand by. SIGTERM ends it in order.
    Install the custom resources first:  dovetail crds | kubectl apply --server-side -f -
    """
    from dovetail.observe.log import LogSettings, configure

    form: Literal["json", "text"] = "text" if settings.log_format == "text" else "json"
    configure(LogSettings(level=settings.log_level, form=form), sys.stderr)
    raise typer.Exit(asyncio.run(_run(kubeconfig, context, settings)))


async def _run(kubeconfig: Path | None, context: str | None, settings: Settings) -> int:
    import logging

    from dovetail.cli.dashboard_api import page_of
    from dovetail.cloud.kwok.catalog import InstanceTypesInvalid
    from dovetail.dashboard.address import AddressUnsafe
    from dovetail.kube.endpoint import AccessFault
    from dovetail.observe.endpoints import PortUnusable
    from dovetail.ports.errors import Denied
    from dovetail.runtime.leader_term import TermEnd
    from dovetail.wiring.live import endpoints, on_cluster, shift, standing
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
            page_of(parts, settings, (kubeconfig, context)),
        ):
            await _check_access(parts.cluster, settings)
            log.info("dovetail starts", extra={"provider": settings.provider, "dry_run": settings.dry_run})
            async with standing(kubeconfig, context, settings) as leadership:
                ending = await shift(parts, settings, stopped, leadership).run()
    except (
        AccessFault,
        AddressUnsafe,
        Denied,
        InstanceTypesInvalid,
        PortUnusable,
        ProviderUnusable,
        Unprepared,
    ) as error:
        echo(f"Error: {error}", err=True)
        return 2
    log.info("dovetail stopped", extra={"why": ending})
    return 0 if ending is TermEnd.STOPPED else 1


class Unprepared(Exception):
    """The cluster lacks what the controllers need."""


async def _check_access(cluster: "Cluster", settings: Settings) -> None:
    """Fail at once, with the remedy, where waiting would not help. An API server that is down is waited for."""
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
        raise Unprepared(f"the cluster has no custom resource {', '.join(absent)}; {remedy}")
