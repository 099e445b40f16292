"""All settings: name, type, default, choices and help text, declared once as the fields of `Settings`.

The command-line flags, the environment variables and docs/reference/settings.md are generated from these fields
through `setting_fields()`. Settings that Karpenter also has use Karpenter's environment variables; all others start
with `DOVETAIL_`.

`read_settings` parses text into a `Settings` value and reports every invalid setting in one error. `Settings.options`
selects the part that decisions depend on, as a `DecisionOptions` value that controllers, commands, dashboard and
simulations share.
"""

from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from datetime import timedelta
from math import isfinite
from typing import Any

from dovetail.model.duration import Duration

FEATURE_GATES = ("Drift", "SpotToSpotConsolidation", "NodeRepair")
PREFIX = "DOVETAIL_"
KARPENTER_SETTINGS = frozenset(
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
"""Settings that Karpenter has too. Their environment variables have no prefix, as in Karpenter."""

SHORTEST_STALE_AFTER = timedelta(seconds=90)
LARGEST = 10**9  # limit of all numeric settings, so that none overflows
MAY_BE_ZERO = frozenset({"vm_memory_overhead_percent", "reserved_enis"})


def _setting(default: Any, text: str, *, choices: tuple[str, ...] = ()) -> Any:
    return field(default=default, metadata={"help": text, "choices": choices})


def _flag(text: str) -> Any:
    return field(default=False, metadata={"help": text, "choices": ()})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The configuration of a controller process; the commands use the same settings."""

    provider: str = _setting("kwok", "The cloud provider that launches instances.", choices=("kwok", "aws"))
    catalog: str = _setting(
        "realistic", "The built-in catalog of instance types for the kwok provider.", choices=("realistic", "generic")
    )
    instance_types_file_path: str = _setting(
        "", "A file with instance types for the kwok provider, in place of a built-in catalog."
    )
    cluster_name: str = _setting(
        "", "The name of the EKS cluster. The aws provider needs it, and tags its instances with it."
    )
    cluster_endpoint: str = _setting(
        "", "The URL of the API server for nodes. If empty, the aws provider reads it from EKS."
    )
    vm_memory_overhead_percent: float = _setting(
        0.075, "The fraction of an EC2 instance's memory that its operating system cannot use."
    )
    reserved_enis: int = _setting(0, "The number of network interfaces of an EC2 instance that pods cannot use.")
    isolated_vpc: bool = _flag("Use the built-in EC2 prices, because the VPC cannot reach the AWS pricing API.")
    disable_dry_run: bool = _flag(
        "Do not check with an EC2 dry run that a launch is permitted before an EC2NodeClass becomes ready."
    )
    enable_zonal_shift: bool = _flag("Launch nothing in zones that a zonal shift of the EKS cluster takes out of use.")
    interruption_queue: str = _setting(
        "", "The SQS queue with interruption messages about EC2 instances. If empty, no queue is read."
    )
    batch_idle_duration: timedelta = _setting(
        timedelta(seconds=1), "A batch of pending pods is scheduled after this long without a new pending pod."
    )
    batch_max_duration: timedelta = _setting(
        timedelta(seconds=10), "A batch of pending pods is scheduled after this long at the latest."
    )
    garbage_collection_interval: timedelta = _setting(
        timedelta(minutes=2), "How often NodeClaims are compared with the instances of the provider."
    )
    disruption: str = _setting(
        "off",
        "Whether expired, drifted, empty and underutilized nodes are disrupted. `dovetail plan` shows what that"
        " would do.",
        choices=("off", "on"),
    )
    dry_run: bool = _flag("Decide and report, but write nothing. Permission to get, list and watch is enough.")
    leader_election_name: str = _setting("dovetail-leader-election", "The name of the Lease for leader election.")
    leader_election_namespace: str = _setting(
        "",
        "The namespace of that Lease and of the ConfigMap that pauses disruption. If empty, the namespace of the pod,"
        " or `default` outside a pod.",
    )
    disable_leader_election: bool = _flag("Act without a Lease. Safe only if there is never a second replica.")
    feature_gates: str = _setting(
        "Drift=true,SpotToSpotConsolidation=false,NodeRepair=true",
        "Features to switch on or off: a comma-separated list of Name=true or Name=false.",
    )
    manual_deletion: str = _setting(
        "by-kind",
        "Whether a deletion by hand evicts pods with do-not-disrupt or waits for them, if no terminationGracePeriod"
        " limits the drain. by-kind: deleting a Node evicts them, deleting a NodeClaim or NodePool waits for them.",
        choices=("by-kind", "evict", "wait"),
    )
    repair_without_block: str = _setting(
        "off",
        "How NodePools without a repair block are repaired: not at all, or by the policies of the provider.",
        choices=("off", "provider"),
    )
    rebalance_recommendation: str = _setting(
        "tell",
        "The reaction to a rebalance recommendation for a spot instance. tell: publish an event; drain: drain and"
        " replace the node.",
        choices=("tell", "drain"),
    )
    preference_policy: str = _setting(
        "Respect",
        "Whether scheduling preferences of pods are respected when nodes are launched, replaced and simulated.",
        choices=("Respect", "Ignore"),
    )
    kube_client_qps: float = _setting(200.0, "The average number of requests per second to the API server.")
    kube_client_burst: int = _setting(300, "The largest number of requests to the API server at once.")
    watch_stale_after: timedelta = _setting(
        timedelta(minutes=2, seconds=30),
        "A watch cache is stale if no event, bookmark or list has confirmed it for this long. It is listed again;"
        " until that succeeds, nothing new is disrupted and `/readyz` fails. Bookmarks arrive about once a minute.",
    )
    metrics_port: int = _setting(8080, "The port of `/metrics` for Prometheus; 0 disables it.")
    health_probe_port: int = _setting(8081, "The port of `/healthz` and `/readyz`; 0 disables them.")
    dashboard_port: int = _setting(8088, "The port of the dashboard; 0 disables it.")
    dashboard_address: str = _setting(
        "127.0.0.1",
        "The address that the dashboard listens on. Any address other than loopback requires a token.",
    )
    dashboard_auth: str = _setting(
        "token",
        "The token that users of the dashboard present: that of --dashboard-token-file, or one that the API server"
        " accepts in a TokenReview.",
        choices=("token", "tokenreview"),
    )
    dashboard_token_file: str = _setting("", "The file with the token for the dashboard. If empty, there is no token.")
    node_metrics: str = _setting(
        "pool", "The detail of gauges about nodes: none, per NodePool, or per node.", choices=("off", "pool", "node")
    )
    instance_type_metrics: str = _setting(
        "used",
        "The instance types that have gauges: none, those of existing nodes, or all.",
        choices=("off", "used", "all"),
    )
    ledger: str = _setting(
        "",
        "The SQLite file that records every decision, or `off`. If empty, dovetail/ledger.db in the state directory.",
    )
    ledger_keep: timedelta = _setting(timedelta(days=90), "How long decisions are kept in the ledger.")
    ledger_max_megabytes: int = _setting(
        256, "The largest size of the ledger, in megabytes. The oldest decisions are deleted first."
    )
    log_level: str = _setting(
        "info", "The lowest level of messages that are logged.", choices=("debug", "info", "warning", "error")
    )
    log_format: str = _setting("json", "The format of log lines.", choices=("json", "text"))

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
    """The feature gates and policies that decisions depend on, besides the state of the cluster."""

    drift: bool = True
    spot_to_spot: bool = False
    node_repair: bool = True
    respect_preferences: bool = True
    repair_without_block: bool = False  # by the provider's policies
    manual_deletion: str = "by-kind"
    drain_on_rebalance: bool = False


@dataclass(frozen=True, slots=True)
class SettingField:
    """One setting with its flag and environment variable."""

    name: str
    flag: str
    variable: str
    kind: type
    default: Any
    choices: tuple[str, ...]
    help: str


def setting_fields() -> Iterator[SettingField]:
    """Yield every setting in the order of declaration."""
    for each in fields(Settings):
        yield _setting_field(each)


def _setting_field(each: Field[Any]) -> SettingField:
    return SettingField(
        name=each.name,
        flag="--" + each.name.replace("_", "-"),
        variable=("" if each.name in KARPENTER_SETTINGS else PREFIX) + each.name.upper(),
        kind=type(each.default),
        default=each.default,
        choices=each.metadata["choices"],
        help=each.metadata["help"],
    )


def read_settings(written: Mapping[str, str]) -> Settings:
    """Parse settings from text by field name. The ValueError lists all faults with flag, variable and remedy."""
    values: dict[str, Any] = {}
    faults: list[str] = []
    for setting in setting_fields():
        if setting.name in written:
            try:
                values[setting.name] = _read(setting, written[setting.name])
            except ValueError as error:
                faults.append(f"{setting.flag} ({setting.variable}): {error}")
    settings = Settings(**values)
    if settings.batch_idle_duration > settings.batch_max_duration:
        idle, longest = Duration.of(settings.batch_idle_duration), Duration.of(settings.batch_max_duration)
        why = f"{idle} is longer than the {longest} of --batch-max-duration; make it shorter"
        faults.append(f"--batch-idle-duration (BATCH_IDLE_DURATION): {why}")
    if settings.watch_stale_after < SHORTEST_STALE_AFTER:
        given, least = Duration.of(settings.watch_stale_after), Duration.of(SHORTEST_STALE_AFTER)
        why = f"must be at least {least}, got {given}; bookmarks arrive only about once a minute"
        faults.append(f"--watch-stale-after ({PREFIX}WATCH_STALE_AFTER): {why}")
    if faults:
        raise ValueError("\n".join(faults))
    return settings


def _read(setting: SettingField, text: str) -> Any:
    if setting.kind is timedelta:
        span = Duration.parse(text).span
        if span <= timedelta():
            raise ValueError(f"must be longer than 0s, got {text!r}")
        return span
    if setting.name == "feature_gates":
        _read_gates(text)
        return text
    if setting.kind is bool:
        if text not in {"true", "false"}:
            raise ValueError(f"must be true or false, got {text!r}")
        return text == "true"
    if setting.choices and text not in setting.choices:
        raise ValueError(f"must be one of {', '.join(setting.choices)}, got {text!r}")
    if setting.name.endswith("_port"):
        return _port(text)
    return _number(setting, text) if setting.kind in {int, float} else text


def _number(setting: SettingField, text: str) -> float:
    """Parse a finite number between 0 and LARGEST; 0 only where MAY_BE_ZERO allows it."""
    expected = "a whole number" if setting.kind is int else "a number such as 200 or 0.5"
    try:
        number: float = setting.kind(text)
    except ValueError:
        raise ValueError(f"must be {expected}, got {text[:40]!r}") from None
    if setting.kind is float and not isfinite(number):
        raise ValueError(f"must be {expected}, got {text!r}")
    if number > LARGEST:
        raise ValueError(f"must be at most {LARGEST:,}, got {text[:40]!r}")
    if number < 0 or (number == 0 and setting.name not in MAY_BE_ZERO):
        raise ValueError(f"must be greater than 0, got {text!r}")
    return number


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 5 or int(text) > 65535:
        raise ValueError(f"must be a port number, or 0 to disable it, got {text[:40]!r}")
    return int(text)


def _read_gates(text: str) -> dict[str, bool]:
    """Parse feature gates into a mapping by name; ValueError for an unknown name or value."""
    gates: dict[str, bool] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = entry.partition("=")
        if name not in FEATURE_GATES or value not in {"true", "false"}:
            known = ", ".join(FEATURE_GATES)
            raise ValueError(f"{entry!r} must be Name=true or Name=false; the names are {known}")
        gates[name] = value == "true"
    return gates
