"""All settings: name, type, default, choices and help text, declared once as the fields of `Settings`.

Flags, environment variables and docs/reference/settings.md are generated from them through `setting_fields()`. Settings
that Karpenter has too (`karpenter_settings`) use Karpenter's variables; all others start with `DOVETAIL_`.

`read_settings` parses text and reports every invalid setting in one error; `read_environment` adds environment
variables, parsed as Karpenter does. `Settings.options` is the part that all decisions share, a `DecisionOptions`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from datetime import timedelta
from math import isfinite
from typing import Any
from urllib.parse import urlsplit

from dovetail.karpenter_settings import (
    KARPENTER_GATES,
    KARPENTER_SETTINGS,
    SettingNotice,
    check_base64,
    check_unimplemented,
    gate_notices,
    go_boolean,
    parse_gates,
    parses_in_go,
    unimplemented,
)
from dovetail.model.duration import Duration
from dovetail.scheduler_config import parse_scheduler_config

PREFIX = "DOVETAIL_"
KARPENTER_NAMES = frozenset(each.name for each in KARPENTER_SETTINGS if each.effect == "implemented")
"""Settings that Karpenter has too. Their environment variables have no prefix, as in Karpenter."""

SHORTEST_STALE_AFTER = timedelta(seconds=90)
SHORTEST_BY_NAME = dict.fromkeys(("ami_refresh_interval", "subnet_refresh_interval"), timedelta(minutes=1))
STANDARD_VARIABLES = {"otlp_endpoint": "OTEL_EXPORTER_OTLP_ENDPOINT"}
LARGEST = 10**9  # limit of all numeric settings, so that none overflows
MAY_BE_ZERO = frozenset({"vm_memory_overhead_percent", "reserved_enis"})


def _setting(default: Any, text: str, *, choices: tuple[str, ...] = ()) -> Any:
    return field(default=default, metadata={"help": text, "choices": choices})


def _flag(text: str, *, default: bool = False) -> Any:
    return field(default=default, metadata={"help": text, "choices": ()})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The configuration of a controller process; the commands use the same settings."""

    provider: str = _setting(
        "auto",
        "Manage only NodePools of this provider; auto: of all, by their nodeClassRef.",
        choices=("auto", "kwok", "aws"),
    )
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
    cluster_ca_bundle: str = _setting(
        "", "The CA bundle of that API server for nodes, base64-encoded. If empty, the one Dovetail connects with."
    )
    vm_memory_overhead_percent: float = _setting(
        0.075, "The fraction of an EC2 instance's memory that its operating system cannot use."
    )
    reserved_enis: int = _setting(0, "The number of network interfaces of an EC2 instance that pods cannot use.")
    eks_control_plane: bool = _flag(
        "With false, EKS is never called: the settings and the API server describe the cluster.", default=True
    )
    isolated_vpc: bool = _flag("Use the built-in EC2 prices, because the VPC cannot reach the AWS pricing API.")
    disable_dry_run: bool = _flag(
        "Do not check with an EC2 dry run that a launch is permitted before an EC2NodeClass becomes ready."
    )
    ami_refresh_interval: timedelta = _setting(
        timedelta(minutes=1), "How often the AMIs of an EC2NodeClass are read from AWS again."
    )
    subnet_refresh_interval: timedelta = _setting(
        timedelta(minutes=1), "How often the subnets of an EC2NodeClass are read from EC2 again."
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
    nominate_pods: bool = _flag(
        "Keep a new node closed until it is ready, then nominate the pods to it that it is for.", default=True
    )
    disruption: str = _setting(
        "off",
        "Whether expired, drifted, empty and underutilized nodes are disrupted. `dovetail plan` shows what that"
        " would do.",
        choices=("off", "on"),
    )
    dry_run: bool = _flag("Decide and report, but write nothing. Permission to get, list and watch is enough.")
    leader_election_name: str = _setting(
        "karpenter-leader-election",
        "The name of the Lease for leader election. It is Karpenter's, so that in one namespace only one of both acts.",
    )
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
    node_sizing: str = _setting(
        "by-price", "How nodes for many pods are chosen; by-price needs HiGHS.", choices=("by-price", "one-by-one")
    )
    min_values_policy: str = _setting(
        "Strict",
        "Whether `minValues` of a NodePool prevents a launch that does not meet it. BestEffort: `minValues` is lowered"
        " on the NodeClaim to what is available.",
        choices=("Strict", "BestEffort"),
    )
    scheduler_config: str = _setting(
        "",
        "The configuration of kube-scheduler that scheduling depends on, as YAML or JSON:"
        " `podTopologySpread.defaultConstraints`, the spread of pods without topologySpreadConstraints.",
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
        "node",
        "The detail of gauges about nodes, pods and conditions: none, sums per NodePool, or a series for each object.",
        choices=("off", "pool", "node"),
    )
    instance_type_metrics: str = _setting(
        "used",
        "The instance types that have gauges: none, those of existing nodes, or all.",
        choices=("off", "used", "all"),
    )
    disable_cluster_state_observability: bool = _flag(
        "No gauges about pods, nodes, NodePools, instance types and conditions, and no events about changed conditions."
    )
    ledger: str = _setting(
        "",
        "The SQLite file that records every decision, or `off`. If empty, dovetail/ledger.db in the state directory.",
    )
    ledger_keep: timedelta = _setting(timedelta(days=90), "How long decisions are kept in the ledger.")
    ledger_max_megabytes: int = _setting(
        256, "The largest size of the ledger, in megabytes. The oldest decisions are deleted first."
    )
    otlp_endpoint: str = _setting("", "The base URL of a collector that receives traces over OTLP/HTTP. Empty: none.")
    log_level: str = _setting(
        "info", "The lowest level of messages that are logged.", choices=("debug", "info", "warning", "error")
    )
    log_output_paths: str = _setting(
        "stderr", "Where log lines go: a comma-separated list of stdout, stderr and files."
    )
    log_format: str = _setting("json", "The format of log lines.", choices=("json", "text"))

    @property
    def relax_min_values(self) -> bool:
        """Whether `minValues` of a NodePool is lowered where it is not met."""
        return self.min_values_policy == "BestEffort"

    @property
    def options(self) -> "DecisionOptions":
        """The settings that decisions depend on."""
        gates = parse_gates(self.feature_gates)
        return DecisionOptions(
            drift=gates.get("Drift", True),
            spot_to_spot=gates.get("SpotToSpotConsolidation", False),
            node_repair=gates.get("NodeRepair", True),
            respect_preferences=self.preference_policy == "Respect",
            sizes_by_price=self.node_sizing == "by-price",
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
    sizes_by_price: bool = True
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
    yield from map(_setting_field, fields(Settings))


def _setting_field(each: Field[Any]) -> SettingField:
    return SettingField(
        name=each.name,
        flag="--" + each.name.replace("_", "-"),
        variable=STANDARD_VARIABLES.get(each.name)
        or ("" if each.name in KARPENTER_NAMES else PREFIX) + each.name.upper(),
        kind=type(each.default),
        default=each.default,
        choices=each.metadata["choices"],
        help=each.metadata["help"],
    )


def read_settings(written: Mapping[str, str]) -> Settings:
    """Parse settings from text by field name. The ValueError lists all faults with flag, variable and remedy."""
    return read_environment(written, {})[0]


def read_environment(
    flags: Mapping[str, str], environment: Mapping[str, str]
) -> tuple[Settings, tuple[SettingNotice, ...]]:
    """Parse flags, by field name, and environment variables; the flag takes precedence. An empty variable is unset.

    A variable of Karpenter that Karpenter would ignore, because Go cannot parse it, is a notice. All other faults are
    reported in one ValueError.
    """
    written, notices = dict(flags), list[SettingNotice]()
    for setting in setting_fields():
        text = environment.get(setting.variable, "")
        if not text or setting.name in flags:
            continue
        if setting.name in KARPENTER_NAMES and not parses_in_go(setting.kind, text):
            problem = f"{text[:40]!r} cannot be parsed and is ignored, as in Karpenter; the default stays"
            notices.append(SettingNotice(setting.variable, problem))
        else:
            in_go = setting.kind is bool and parses_in_go(bool, text)
            written[setting.name] = str(go_boolean(text)).lower() if in_go else text
    settings, faults = _read_all(written)
    batch_fault = _batch_fault(settings)
    if batch_fault and not {"batch_idle_duration", "batch_max_duration"} & set(flags):
        notices.append(
            SettingNotice("BATCH_IDLE_DURATION", f"{batch_fault}; the longer one has no effect, as in Karpenter")
        )
        settings = replace(settings, batch_idle_duration=settings.batch_max_duration)
    elif batch_fault:
        faults.append(f"--batch-idle-duration (BATCH_IDLE_DURATION): {batch_fault}; make it shorter")
    for each in unimplemented():
        text = flags.get(each.name, environment.get(each.variable, ""))
        try:
            notices += check_unimplemented(each, text, is_flag=each.name in flags) if text else ()
        except ValueError as error:
            faults.append(f"{each.flag} ({each.variable}): {error}")
    if faults:
        raise ValueError("\n".join(faults))
    return settings, (*notices, *gate_notices("FEATURE_GATES", settings.feature_gates, KARPENTER_GATES))


def _read_all(written: Mapping[str, str]) -> tuple[Settings, list[str]]:
    values, faults = dict[str, Any](), list[str]()
    for setting in setting_fields():
        if setting.name in written:
            try:
                values[setting.name] = _read(setting, written[setting.name])
            except ValueError as error:
                faults.append(f"{setting.flag} ({setting.variable}): {error}")
    settings = Settings(**values)
    if settings.watch_stale_after < SHORTEST_STALE_AFTER:
        given, least = Duration.of(settings.watch_stale_after), Duration.of(SHORTEST_STALE_AFTER)
        why = f"must be at least {least}, got {given}; bookmarks arrive only about once a minute"
        faults.append(f"--watch-stale-after ({PREFIX}WATCH_STALE_AFTER): {why}")
    return settings, faults


def _batch_fault(settings: Settings) -> str:
    """What is wrong with the two durations of a batch together, or empty."""
    idle, longest = Duration.of(settings.batch_idle_duration), Duration.of(settings.batch_max_duration)
    return f"{idle} is longer than the {longest} of --batch-max-duration" if idle.span > longest.span else ""


def _read(setting: SettingField, text: str) -> Any:
    if setting.kind is timedelta:
        span, least = Duration.parse(text).span, SHORTEST_BY_NAME.get(setting.name, timedelta())
        if span <= timedelta():
            raise ValueError(f"must be longer than 0s, got {text!r}")
        if span < least:
            raise ValueError(f"must be at least {Duration.of(least)}, got {text!r}")
        return span
    if setting.kind is bool:
        if text not in {"true", "false"}:
            raise ValueError(f"must be true or false, got {text!r}")
        return text == "true"
    if setting.choices and text not in setting.choices:
        raise ValueError(f"must be one of {', '.join(setting.choices)}, got {text!r}")
    if setting.name.endswith("_port"):
        return _port(text)
    _TEXT_CHECKS.get(setting.name, str)(text)
    return _number(setting, text) if setting.kind in {int, float} else text


def _check_url(text: str) -> None:
    parts = urlsplit(text)
    if text and not (parts.scheme and parts.hostname):
        raise ValueError(f"must be a URL such as https://example.com, got {text[:80]!r}")


_TEXT_CHECKS: Mapping[str, Callable[[str], object]] = {
    "feature_gates": parse_gates,
    "scheduler_config": parse_scheduler_config,
    "cluster_endpoint": _check_url,
    "otlp_endpoint": _check_url,
    "cluster_ca_bundle": check_base64,
}
"""Functions that raise ValueError for text that is not valid, by setting."""


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
