"""Every environment variable and flag of Karpenter and its AWS provider, and what each does here.

Each setting has exactly one effect: it is implemented by a field of `Settings`, it is accepted without effect, or
values that would be dangerous to ignore are refused. docs/reference/karpenter-settings.md is generated from
`KARPENTER_SETTINGS`, `KARPENTER_GATES` and `AWS_GATES`.

Values are parsed as Karpenter parses them (`parses_in_go`, `parse_gates`): a variable that Go cannot parse is ignored
there, so it must not stop a process here; a flag that cannot be parsed stops both.
"""

import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from typing import Literal

from dovetail.model.duration import parse_duration

Effect = Literal["implemented", "no effect", "refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KarpenterSetting:
    """One variable of Karpenter. `default` is Karpenter's.

    `same` are the values that ask for what happens here anyway: they are accepted without a log line. A setting that is
    refused is refused with any other value.
    """

    variable: str
    default: str
    effect: Effect
    because: str
    kind: type = str
    same: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name as a Python identifier."""
        return self.variable.lower()

    @property
    def flag(self) -> str:
        """The flag, which Karpenter derives from the variable."""
        return "--" + self.name.replace("_", "-")


def _implemented(variable: str, default: str, difference: str = "") -> KarpenterSetting:
    return KarpenterSetting(variable=variable, default=default, effect="implemented", because=difference)


def _no_effect(
    variable: str, default: str, because: str, *, kind: type = str, same: tuple[str, ...] = ()
) -> KarpenterSetting:
    return KarpenterSetting(
        variable=variable, default=default, effect="no effect", because=because, kind=kind, same=same
    )


_UNUSED = "Karpenter sets it in its chart and does not read it"

KARPENTER_SETTINGS: tuple[KarpenterSetting, ...] = (
    _no_effect(
        "KARPENTER_SERVICE", "", "it was for the webhooks of old releases, and Karpenter does not use it either"
    ),
    _implemented("METRICS_PORT", "8080"),
    _implemented("HEALTH_PROBE_PORT", "8081"),
    _implemented("KUBE_CLIENT_QPS", "200", "Must be greater than 0."),
    _implemented("KUBE_CLIENT_BURST", "300", "Must be greater than 0."),
    _no_effect(
        "ENABLE_PROFILING",
        "false",
        "pprof is a profiler for Go; attach py-spy to the process instead",
        kind=bool,
        same=("false",),
    ),
    _implemented("DISABLE_LEADER_ELECTION", "false"),
    _no_effect(
        "DISABLE_CONTROLLER_WARMUP",
        "true",
        "a replica that is not leader fills no caches until it leads",
        kind=bool,
        same=("true",),
    ),
    _implemented("DISABLE_CLUSTER_STATE_OBSERVABILITY", "false", "Events are published in any case."),
    _implemented("LEADER_ELECTION_NAME", "karpenter-leader-election"),
    _implemented("LEADER_ELECTION_NAMESPACE", ""),
    _no_effect(
        "MEMORY_LIMIT",
        "-1",
        "Python has no soft memory limit; the limit of the container holds",
        kind=int,
        same=("-1",),
    ),
    _no_effect("CPU_REQUESTS", "1000", "the number of workers of a controller does not depend on it", kind=int),
    _implemented("LOG_LEVEL", "info"),
    _implemented("LOG_OUTPUT_PATHS", "stdout", "The default here is `stderr`."),
    _no_effect("LOG_ERROR_OUTPUT_PATHS", "stderr", "errors of the logger itself always go to stderr", same=("stderr",)),
    _implemented("BATCH_MAX_DURATION", "10s"),
    _implemented("BATCH_IDLE_DURATION", "1s"),
    _implemented("PREFERENCE_POLICY", "Respect"),
    _implemented("MIN_VALUES_POLICY", "Strict"),
    KarpenterSetting(
        variable="IGNORE_DRA_REQUESTS",
        default="true",
        effect="refused",
        because="Dovetail cannot simulate Dynamic Resource Allocation: nothing is launched for pods with"
        " resourceClaims, and their nodes are not disrupted; remove the setting",
        kind=bool,
        same=("true",),
    ),
    _implemented("SCHEDULER_CONFIG", "", "Pods of ReplicaSets, StatefulSets and ReplicationControllers are spread."),
    _implemented("FEATURE_GATES", "", "See the gates below."),
    _implemented("CLUSTER_NAME", ""),
    _implemented("CLUSTER_ENDPOINT", ""),
    _implemented("CLUSTER_CA_BUNDLE", ""),
    _implemented("ISOLATED_VPC", "false"),
    _implemented("EKS_CONTROL_PLANE", "false", "The default here is `true`. Leave it out on EKS."),
    _implemented("VM_MEMORY_OVERHEAD_PERCENT", "0.075"),
    _implemented("RESERVED_ENIS", "0"),
    _implemented("INTERRUPTION_QUEUE", ""),
    _implemented("DISABLE_DRY_RUN", "false"),
    _implemented("ENABLE_ZONAL_SHIFT", "false"),
    _implemented("AMI_REFRESH_INTERVAL", "1m", "At least `1m`."),
    _implemented("SUBNET_REFRESH_INTERVAL", "1m", "At least `1m`."),
    _no_effect("AWS_FEATURE_GATES", "NodeClassCEL=false", "see the gates below"),
    _no_effect("KUBERNETES_MIN_VERSION", "", _UNUSED),
    _no_effect("SYSTEM_NAMESPACE", "", _UNUSED),
    _implemented("INSTANCE_TYPES_FILE_PATH", "", "A setting of Karpenter's kwok provider."),
)
"""In the order of Karpenter's documentation: core, AWS, variables of the charts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KarpenterGate:
    """One feature gate. `missing` says what `Name=true` does not do here; empty if it is implemented."""

    name: str
    default: str
    about: str
    missing: str = ""
    always_on: bool = False


KARPENTER_GATES: tuple[KarpenterGate, ...] = (
    KarpenterGate(
        name="NodeRepair",
        default="false",
        about="Implemented. Without the gate, repair is on for NodePools with `spec.repair`; `false` turns it off"
        " everywhere. NodePools without `spec.repair` are repaired with `--repair-without-block=provider`.",
    ),
    KarpenterGate(
        name="ReservedCapacity",
        default="true",
        about="It is always on; an EC2NodeClass without `capacityReservationSelectorTerms` uses no reservation.",
        always_on=True,
    ),
    KarpenterGate(name="SpotToSpotConsolidation", default="false", about="Implemented."),
    KarpenterGate(
        name="NodeOverlay",
        default="false",
        about="`true` has no effect.",
        missing="NodeOverlays are not applied: prices and capacities are those of the provider",
    ),
    KarpenterGate(
        name="StaticCapacity",
        default="false",
        about="`true` has no effect.",
        missing="NodePools with spec.replicas are not scaled: no node is launched for them, and none of their nodes is"
        " consolidated, drifted or expired",
    ),
    KarpenterGate(
        name="CapacityBuffer",
        default="false",
        about="`true` has no effect.",
        missing="CapacityBuffers are not served: no spare capacity is kept",
    ),
    KarpenterGate(
        name="Drift",
        default="always on",
        about="Implemented; on by default. Karpenter v1 has no such gate and ignores the name.",
    ),
)
AWS_GATES: tuple[KarpenterGate, ...] = (
    KarpenterGate(
        name="NodeClassCEL",
        default="false",
        about="`true` has no effect.",
        missing="expressions in spec.kubelet of an EC2NodeClass are not evaluated: an EC2NodeClass with one launches"
        " nothing",
    ),
)

_GO_BOOLEANS: Mapping[str, bool] = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}


def go_boolean(text: str) -> bool:
    """Parse a boolean as Go's `strconv.ParseBool` does."""
    try:
        return _GO_BOOLEANS[text]
    except KeyError:
        raise ValueError(f"must be true or false, got {text[:40]!r}") from None


def parses_in_go(kind: type, text: str) -> bool:
    """Whether Karpenter can parse a variable of this type; it ignores a variable that it cannot parse."""
    if kind is bool:
        return text in _GO_BOOLEANS
    if kind is timedelta:
        try:
            parse_duration(text)
        except ValueError:
            return False
        return True
    pattern = {int: r"[-+]?[0-9]{1,400}", float: r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?"}.get(kind)
    return pattern is None or re.fullmatch(pattern, text) is not None


def check_base64(text: str) -> None:
    """ValueError for a CA bundle with which no node could join the cluster."""
    try:
        b64decode("".join(text.split()), validate=True)
    except ValueError:
        raise ValueError(f"must be base64-encoded, got {text[:40]!r}") from None


def parse_gates(text: str) -> dict[str, bool]:
    """Parse a list of feature gates by name; unknown names are kept, a gate with an empty value counts as not named.

    Karpenter's kwok chart renders empty values.
    """
    gates: dict[str, bool] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (part.strip() for part in entry.partition("="))
        if not name or not equals:
            raise ValueError(f"{entry[:80]!r} must be Name=true or Name=false")
        if value:
            try:
                gates[name] = go_boolean(value)
            except ValueError:
                raise ValueError(f"{entry[:80]!r} must be Name=true or Name=false") from None
    return gates


@dataclass(frozen=True, slots=True)
class SettingNotice:
    """A remark about a setting that is accepted but not followed in full."""

    setting: str
    text: str
    warning: bool = True


def gate_notices(variable: str, text: str, known: tuple[KarpenterGate, ...]) -> Iterator[SettingNotice]:
    """Yield a notice for every gate that is unknown, or switches on what is not implemented."""
    gate_by_name = {gate.name: gate for gate in known}
    for name, on in parse_gates(text).items():
        gate = gate_by_name.get(name)
        if gate is None:
            near = get_close_matches(name, gate_by_name, 1)
            hint = f"did you mean {near[0]}?" if near else f"the names are {', '.join(gate_by_name)}"
            yield SettingNotice(variable, f"unknown feature gate {name!r} is ignored; {hint}")
        elif on and gate.missing:
            yield SettingNotice(variable, f"{name}=true has no effect here, because {gate.missing}")
        elif gate.always_on and not on:
            yield SettingNotice(
                variable, f"{name}=false has no effect here, because {gate.about[0].lower()}{gate.about[1:-1]}"
            )


def unimplemented() -> Iterator[KarpenterSetting]:
    """Yield the settings that are only accepted or refused."""
    return (each for each in KARPENTER_SETTINGS if each.effect != "implemented")


def check_unimplemented(setting: KarpenterSetting, text: str, *, is_flag: bool) -> Iterator[SettingNotice]:
    """Yield the notices about a setting that is not implemented; ValueError if it is refused."""
    if not parses_in_go(setting.kind, text) or (is_flag and setting.kind is bool and text not in {"true", "false"}):
        if is_flag:
            raise ValueError(f"is not valid: {text[:40]!r}")
        yield SettingNotice(setting.variable, f"{text[:40]!r} cannot be parsed and is ignored, as in Karpenter")
        return
    value = str(go_boolean(text)).lower() if setting.kind is bool else text
    if setting.name == "aws_feature_gates":
        yield from gate_notices(setting.variable, text, AWS_GATES)
    elif value not in setting.same:
        if setting.effect == "refused":
            raise ValueError(f"{value} is refused, because {setting.because}")
        yield SettingNotice(
            setting.variable, f"no effect here, because {setting.because}", warning=setting.kind is bool
        )
