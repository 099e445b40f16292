"""`dovetail run`: the controller process.

Connects to the cluster, serves metrics, probes and dashboard, waits for leadership and runs the controllers until a
signal arrives or the Lease is lost. Configuration errors and missing custom resources end it at once with exit code 2.
"""

import asyncio
import logging
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dovetail.cli.safe_output import echo
from dovetail.cli.settings_options import with_settings
from dovetail.karpenter_settings import SettingNotice
from dovetail.settings import Settings

if TYPE_CHECKING:
    from dovetail.ports.cluster import Cluster
    from dovetail.wiring.providers import Providers

log = logging.getLogger(__name__)


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
    notices: Sequence[SettingNotice],
) -> None:
    """Run the controllers against a cluster until stopped.

    Launches nodes for pending pods, terminates deleted nodes, repairs unhealthy nodes and handles interruptions.
    With --disruption on, it also disrupts expired, drifted, empty and underutilized nodes; see dovetail plan first.
    With --dry-run it writes nothing and reports what it would do; permission to get, list and watch is enough.
    With several replicas, the holder of a Lease acts and the others stand by. SIGTERM stops it in order.
    It needs the custom resources of Karpenter v1, or:  dovetail crds | kubectl apply --server-side -f -
    """
    from dovetail.observe.log import LogOutputs, LogSettings, configure

    form: Literal["json", "text"] = "text" if settings.log_format == "text" else "json"
    try:
        output = LogOutputs(settings.log_output_paths)
    except OSError as error:
        echo(f"Error: --log-output-paths (LOG_OUTPUT_PATHS): {error}", err=True)
        raise typer.Exit(2) from None
    configure(LogSettings(level=settings.log_level, form=form), output)
    for each in notices:
        level = logging.WARNING if each.warning else logging.INFO
        log.log(level, "setting is not followed", extra={"setting": each.setting, "why": each.text})
    raise typer.Exit(asyncio.run(_run(kubeconfig, context, settings)))


async def _run(kubeconfig: Path | None, context: str | None, settings: Settings) -> int:
    from dovetail.cli.dashboard_api import serve_dashboard
    from dovetail.cloud.kwok.catalog import InstanceTypesInvalid
    from dovetail.dashboard.address import AddressUnsafe
    from dovetail.kube.endpoint import AccessFault
    from dovetail.observe.endpoints import PortUnusable
    from dovetail.ports.errors import Denied
    from dovetail.runtime.leader_term import TermEnd
    from dovetail.wiring.live import endpoints, leader_term, on_cluster, open_leadership
    from dovetail.wiring.providers import ProviderUnusable
    from dovetail.wiring.tracing import TracingUnusable

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
            await _check_access(parts.cluster, parts.providers, settings)
            log.info("dovetail starts", extra={"provider": settings.provider, "dry_run": settings.dry_run})
            await _log_missing_fields(parts.cluster)
            async with open_leadership(kubeconfig, context, settings) as leadership:
                ending = await leader_term(parts, settings, stopped, leadership).run()
    except (
        AccessFault,
        AddressUnsafe,
        Denied,
        InstanceTypesInvalid,
        PortUnusable,
        ProviderUnusable,
        TracingUnusable,
        CustomResourcesMissing,
    ) as error:
        echo(f"Error: {error}", err=True)
        return 2
    log.info("dovetail stopped", extra={"why": ending})
    return 0 if ending is TermEnd.STOPPED else 1


class CustomResourcesMissing(Exception):
    """The cluster lacks custom resources that the controllers need."""


async def _check_access(cluster: "Cluster", providers: "Providers", settings: Settings) -> None:
    """Fail if custom resources are missing, or if no provider of the NodePools can run.

    An API server that is unavailable is no failure: the controllers retry.
    """
    from dovetail.model.kinds import EC2_NODE_CLASS, KWOK_NODE_CLASS, NODE_CLAIM, NODE_POOL, Kind
    from dovetail.ports.errors import NotFound, Unavailable
    from dovetail.wiring.providers import require_usable

    absent = []
    node_classes: dict[str, Kind[Any]] = {"aws": EC2_NODE_CLASS, "kwok": KWOK_NODE_CLASS}
    needed: tuple[Kind[Any], ...] = (NODE_CLAIM, *filter(None, [node_classes.get(settings.provider)]))
    try:
        require_usable(providers, (await cluster.list(NODE_POOL)).items)
    except NotFound:
        absent.append(f"{NODE_POOL.plural}.{NODE_POOL.group}")
    except Unavailable:
        return
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


async def _log_missing_fields(cluster: "Cluster") -> None:
    """Log which fields the installed NodePool CRD does not have. Permission to read the CRD is optional."""
    import logging

    from dovetail.model.annotated_fields import INSTALL, missing_in
    from dovetail.model.kinds import CUSTOM_RESOURCE_DEFINITION, NODE_POOL
    from dovetail.model.kube_object import Key
    from dovetail.ports.errors import ApiError

    try:
        crd = await cluster.get(CUSTOM_RESOURCE_DEFINITION, Key("", f"{NODE_POOL.plural}.{NODE_POOL.group}"))
    except ApiError:
        return
    schemas = [each.schema.open_api_v3_schema for each in crd.spec.versions if each.name == NODE_POOL.version]
    missing = missing_in(schemas[0]) if schemas else ()
    if missing:
        text = "the installed NodePool CRD lacks fields of Dovetail; write them as annotations, or " + INSTALL
        fields = {each.path: each.annotation for each in missing}
        logging.getLogger(__name__).info(text, extra={"annotation_by_field": fields})
