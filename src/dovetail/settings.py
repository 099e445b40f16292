"""One frozen Settings: every knob with its flag, environment variable, unit, default and reason.

The command line, the environment and the reference page are all made from these fields, so a knob cannot exist in one
place and be missing from another.
"""

from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from datetime import timedelta
from math import isfinite
from typing import Any

from dovetail.model.duration import Duration

FEATURE_GATES = ("Drift", "SpotToSpotConsolidation", "NodeRepair")
PREFIX = "DOVETAIL_"
KARPENTERS = frozenset(
    [
        "ami_refresh_interval",
        "batch_idle_duration",
        "batch_max_duration",
        "cluster_ca_bundle",
        "cluster_endpoint",
        "cluster_name",
        "disable_dry_run",
        "disable_leader_election",
        "eks_control_plane",
        "enable_zonal_shift",
        "feature_gates",
        "health_probe_port",
        "instance_types_file_path",
        "interruption_queue",
        "isolated_vpc",
        "kube_client_burst",
        "kube_client_qps",
        "leader_election_name",
        "leader_election_namespace",
        "log_level",
        "metrics_port",
        "min_values_policy",
        "preference_policy",
        "reserved_enis",
        "subnet_refresh_interval",
        "vm_memory_overhead_percent",
    ]
)
"""Settings that Karpenter has, too: their environment variables keep its names. All others have our prefix."""

SHORTEST_STALE_AFTER = timedelta(seconds=90)
LARGEST = 10**9  # of any number; none makes sense beyond it, and some would overflow
MAY_BE_ZERO = frozenset({"vm_memory_overhead_percent", "reserved_enis"})


def _knob(default: Any, why: str, *, choices: tuple[str, ...] = ()) -> Any:
    return field(default=default, metadata={"why": why, "choices": choices})


def _flag(why: str) -> Any:
    """Off unless it is given."""
    return field(default=False, metadata={"why": why, "choices": ()})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the controller runs."""

    provider: str = _knob("kwok", "Where instances come from.", choices=("kwok", "aws"))
    catalog: str = _knob(
        "realistic", "Which built-in catalogue the kwok provider sells from.", choices=("realistic", "generic")
    )
    instance_types_file_path: str = _knob(
        "", "A file of instance types for the kwok provider, instead of a built-in one."
    )
    cluster_name: str = _knob("", "The EKS cluster, for the aws provider: its instances are tagged with it.")
    cluster_endpoint: str = _knob("", "The API server as nodes reach it; the aws provider asks EKS if it is not given.")
    vm_memory_overhead_percent: float = _knob(
        0.075, "The share of an EC2 instance's memory that its operating system never sees."
    )
    reserved_enis: int = _knob(0, "Network interfaces of an EC2 instance that are not for pods.")
    isolated_vpc: bool = _flag("The pricing API of AWS cannot be reached: shipped prices are used.")
    disable_dry_run: bool = _flag(
        "EC2NodeClasses are ready without a trial: EC2 is not asked ahead of the first launch whether it is permitted."
    )
    enable_zonal_shift: bool = _flag(
        "Nothing is launched in a zone that a zonal shift of the EKS cluster leads away from."
    )
    interruption_queue: str = _knob("", "The SQS queue that tells of interruptions of EC2 instances; none if empty.")
    batch_idle_duration: timedelta = _knob(
        timedelta(seconds=1), "A batch of pending pods ends when no new one came for this long."
    )
    batch_max_duration: timedelta = _knob(
        timedelta(seconds=10), "A batch of pending pods never waits longer than this."
    )
    garbage_collection_interval: timedelta = _knob(
        timedelta(minutes=2), "How often NodeClaims are compared with the instances that exist."
    )
    disruption: str = _knob(
        "off",
        "Whether nodes are disrupted voluntarily: expired, drifted, empty, underutilised. `dovetail plan` says what"
        " that would do.",
        choices=("off", "on"),
    )
    dry_run: bool = _flag("Decide and tell what would be done, and write nothing: permission to read is enough.")
    leader_election_name: str = _knob("dovetail-leader-election", "The Lease whose holder acts.")
    leader_election_namespace: str = _knob(
        "", "Where that Lease is, and the ConfigMap that pauses. Unless given, the pod's own namespace, or default."
    )
    disable_leader_election: bool = _flag("Act without a Lease. Only where nothing else can be running.")
    feature_gates: str = _knob(
        "Drift=true,SpotToSpotConsolidation=false,NodeRepair=true",
        "Features to switch on or off, as Name=true or Name=false.",
    )
    manual_deletion: str = _knob(
        "by-kind",
        "Whether deleting a node by hand evicts its pods with do-not-disrupt or waits for them, where no"
        " terminationGracePeriod bounds the drain. by-kind: deleting a Node evicts, deleting a NodeClaim or NodePool"
        " waits.",
        choices=("by-kind", "evict", "wait"),
    )
    repair_without_block: str = _knob(
        "off",
        "What goes for NodePools without a repair block: their nodes are never repaired, or on the provider's terms.",
        choices=("off", "provider"),
    )
    rebalance_recommendation: str = _knob(
        "tell",
        "What a recommendation to rebalance a spot instance leads to: an event, or a drain with a replacement.",
        choices=("tell", "drain"),
    )
    preference_policy: str = _knob(
        "Respect",
        "Whether preferences of pods count when nodes are launched, replaced and simulated.",
        choices=("Respect", "Ignore"),
    )
    kube_client_qps: float = _knob(200.0, "Requests per second to the API server, on average.")
    kube_client_burst: int = _knob(300, "Requests to the API server that may be made at once.")
    watch_stale_after: timedelta = _knob(
        timedelta(minutes=2, seconds=30),
        "A cache that no event, bookmark or list has confirmed for this long is stale: it is listed again, and until"
        " that succeeds nothing new is disrupted and `/readyz` fails. Bookmarks come about once a minute.",
    )
    metrics_port: int = _knob(8080, "Where `/metrics` is served for Prometheus; 0 for nowhere.")
    health_probe_port: int = _knob(8081, "Where `/healthz` and `/readyz` are served; 0 for nowhere.")
    dashboard_port: int = _knob(8088, "Where the page is served; 0 for nowhere.")
    dashboard_address: str = _knob(
        "127.0.0.1",
        "The address of the page. Any but this machine's own needs a token.",
    )
    dashboard_auth: str = _knob(
        "token",
        "What has to be shown to see the page: its own token, or one that the cluster's API server knows.",
        choices=("token", "tokenreview"),
    )
    dashboard_token_file: str = _knob("", "A file with the token that has to be shown to see the page; none if empty.")
    node_metrics: str = _knob(
        "pool",
        "What gauges about nodes are told for: nothing, each pool, or each node.",
        choices=("off", "pool", "node"),
    )
    instance_type_metrics: str = _knob(
        "used",
        "What gauges about instance types and offerings are told for: nothing, types that nodes are of, or all types.",
        choices=("off", "used", "all"),
    )
    ledger: str = _knob(
        "",
        "The file that keeps every decision; `off` keeps none. Unless given, dovetail/ledger.db where state is kept.",
    )
    ledger_keep: timedelta = _knob(timedelta(days=90), "How long decisions are kept.")
    ledger_max_megabytes: int = _knob(256, "How large the file of decisions may become; the oldest go first.")
    log_level: str = _knob("info", "What is logged.", choices=("debug", "info", "warning", "error"))
    log_format: str = _knob("json", "How it is logged: JSON lines, or text for people.", choices=("json", "text"))

    @property
    def options(self) -> "DecisionOptions":
        """The settings that decisions depend on."""
        gates = _read_gates(self.feature_gates)
        return DecisionOptions(
            drift=gates.get("Drift", True),
            spot_to_spot=gates.get("SpotToSpotConsolidation", False),
            node_repair=gates.get("NodeRepair", True),
            respect_preferences=self.preference_policy == "Respect",
            repair_without_block=self.repair_without_block == "provider",
            manual_deletion=self.manual_deletion,
            drain_on_rebalance=self.rebalance_recommendation == "drain",
        )


@dataclass(frozen=True, kw_only=True)
class DecisionOptions:
    """What decisions depend on beside the cluster: feature gates and policies, read from the settings in one place.

    Controllers, commands, page and simulations take the same value, so that all of them decide alike.
    """

    drift: bool = True
    spot_to_spot: bool = False
    node_repair: bool = True
    respect_preferences: bool = True
    repair_without_block: bool = False  # NodePools without a repair block: on the provider's terms
    manual_deletion: str = "by-kind"
    drain_on_rebalance: bool = False


@dataclass(frozen=True, slots=True)
class Knob:
    """One setting as people meet it."""

    name: str
    flag: str
    variable: str
    kind: type
    default: Any
    choices: tuple[str, ...]
    why: str


def knobs() -> Iterator[Knob]:
    """Every setting, in the order it is declared."""
    for each in fields(Settings):
        yield _knob_of(each)


def _knob_of(each: Field[Any]) -> Knob:
    return Knob(
        name=each.name,
        flag="--" + each.name.replace("_", "-"),
        variable=("" if each.name in KARPENTERS else PREFIX) + each.name.upper(),
        kind=type(each.default),
        default=each.default,
        choices=each.metadata["choices"],
        why=each.metadata["why"],
    )


def read_settings(written: Mapping[str, str]) -> Settings:
    """Settings from text by field name. All faults at once, each naming flag, variable and remedy."""
    values: dict[str, Any] = {}
    faults: list[str] = []
    for knob in knobs():
        if knob.name in written:
            try:
                values[knob.name] = _read(knob, written[knob.name])
            except ValueError as error:
                faults.append(f"{knob.flag} ({knob.variable}): {error}")
    settings = Settings(**values)
    if settings.batch_idle_duration > settings.batch_max_duration:
        idle, longest = Duration.of(settings.batch_idle_duration), Duration.of(settings.batch_max_duration)
        why = f"a pause of {idle} is longer than the {longest} of --batch-max-duration; make it shorter"
        faults.append(f"--batch-idle-duration (BATCH_IDLE_DURATION): {why}")
    if settings.watch_stale_after < SHORTEST_STALE_AFTER:
        given, least = Duration.of(settings.watch_stale_after), Duration.of(SHORTEST_STALE_AFTER)
        why = f"must be at least {least}, got {given}; bookmarks come about once a minute, quiet caches would be stale"
        faults.append(f"--watch-stale-after ({PREFIX}WATCH_STALE_AFTER): {why}")
    if faults:
        raise ValueError("\n".join(faults))
    return settings


def _read(knob: Knob, text: str) -> Any:
    if knob.kind is timedelta:
        span = Duration.parse(text).span
        if span <= timedelta():
            raise ValueError(f"must be longer than nothing, got {text!r}")
        return span
    if knob.name == "feature_gates":
        _read_gates(text)
        return text
    if knob.kind is bool:
        if text not in {"true", "false"}:
            raise ValueError(f"must be true or false, got {text!r}")
        return text == "true"
    if knob.choices and text not in knob.choices:
        raise ValueError(f"must be one of {', '.join(knob.choices)}, got {text!r}")
    if knob.name.endswith("_port"):
        return _port(text)
    return _number(knob, text) if knob.kind in {int, float} else text


def _number(knob: Knob, text: str) -> float:
    """A number that is not too small, and neither infinite nor none at all."""
    asked = "a whole number" if knob.kind is int else "a number such as 200 or 0.5"
    try:
        number: float = knob.kind(text)
    except ValueError:
        raise ValueError(f"must be {asked}, got {text[:40]!r}") from None
    if knob.kind is float and not isfinite(number):
        raise ValueError(f"must be {asked}, got {text!r}")
    if number > LARGEST:
        raise ValueError(f"must be at most {LARGEST:,}, got {text[:40]!r}")
    if number < 0 or (number == 0 and knob.name not in MAY_BE_ZERO):
        raise ValueError(f"must be greater than 0, got {text!r}")
    return number


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 5 or int(text) > 65535:
        raise ValueError(f"must be a port, or 0 to serve nothing, got {text[:40]!r}")
    return int(text)


def _read_gates(text: str) -> dict[str, bool]:
    """Which feature gates are on or off; ValueError for one that is not known."""
    gates: dict[str, bool] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = entry.partition("=")
        if name not in FEATURE_GATES or value not in {"true", "false"}:
            known = ", ".join(FEATURE_GATES)
            raise ValueError(f"{entry!r} must be Name=true or Name=false, with a name of: {known}")
        gates[name] = value == "true"
    return gates
