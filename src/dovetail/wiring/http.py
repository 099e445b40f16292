"""What a process serves over HTTP; not among the parts, since a simulated story serves nothing and is to start soon."""

from dovetail.observe.endpoints import Endpoints
from dovetail.settings import Settings
from dovetail.wiring.assembly import Assembly


def endpoints(parts: Assembly, settings: Settings) -> Endpoints:
    """What the process serves over HTTP. It is ready once every kind it looks at has been listed, ours included."""

    async def refresh() -> None:
        leads: dict[tuple[str, ...], float] = {(settings.leader_election_name,): float(parts.gate.is_open)}
        parts.metrics.show("leader_election_master_status", leads)
        await parts.manager.gauges.refresh()

    return Endpoints(
        metrics_port=settings.metrics_port,
        probe_port=settings.health_probe_port,
        refresh=refresh,
        render=parts.metrics.render,
        missing=parts.missing,
    )
