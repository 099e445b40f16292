"""Every variable of Karpenter is implemented, accepted with a reason or refused, and parsed as Go parses it."""

import re
from datetime import timedelta
from pathlib import Path

import pytest

from dovetail.karpenter_settings import AWS_GATES, KARPENTER_GATES, KARPENTER_SETTINGS, parse_gates
from dovetail.settings import DecisionOptions, Settings, read_environment, setting_fields

CORE = [
    "KARPENTER_SERVICE",
    "METRICS_PORT",
    "HEALTH_PROBE_PORT",
    "KUBE_CLIENT_QPS",
    "KUBE_CLIENT_BURST",
    "ENABLE_PROFILING",
    "DISABLE_LEADER_ELECTION",
    "DISABLE_CONTROLLER_WARMUP",
    "DISABLE_CLUSTER_STATE_OBSERVABILITY",
    "LEADER_ELECTION_NAME",
    "LEADER_ELECTION_NAMESPACE",
    "MEMORY_LIMIT",
    "CPU_REQUESTS",
    "LOG_LEVEL",
    "LOG_OUTPUT_PATHS",
    "LOG_ERROR_OUTPUT_PATHS",
    "BATCH_MAX_DURATION",
    "BATCH_IDLE_DURATION",
    "PREFERENCE_POLICY",
    "MIN_VALUES_POLICY",
    "IGNORE_DRA_REQUESTS",
    "SCHEDULER_CONFIG",
    "FEATURE_GATES",
]
AWS = [
    "CLUSTER_NAME",
    "CLUSTER_ENDPOINT",
    "CLUSTER_CA_BUNDLE",
    "ISOLATED_VPC",
    "EKS_CONTROL_PLANE",
    "VM_MEMORY_OVERHEAD_PERCENT",
    "RESERVED_ENIS",
    "INTERRUPTION_QUEUE",
    "DISABLE_DRY_RUN",
    "ENABLE_ZONAL_SHIFT",
    "AMI_REFRESH_INTERVAL",
    "SUBNET_REFRESH_INTERVAL",
    "AWS_FEATURE_GATES",
]
CHARTS = ["KUBERNETES_MIN_VERSION", "SYSTEM_NAMESPACE", "INSTANCE_TYPES_FILE_PATH"]
GATES = ["NodeRepair", "ReservedCapacity", "SpotToSpotConsolidation", "NodeOverlay", "StaticCapacity", "CapacityBuffer"]
CHART = {
    "KUBERNETES_MIN_VERSION": "1.19.0-0",
    "KARPENTER_SERVICE": "karpenter",
    "LOG_LEVEL": "info",
    "LOG_OUTPUT_PATHS": "stdout",
    "LOG_ERROR_OUTPUT_PATHS": "stderr",
    "METRICS_PORT": "8080",
    "HEALTH_PROBE_PORT": "8081",
    "SYSTEM_NAMESPACE": "kube-system",
    "CPU_REQUESTS": "1000",
    "MEMORY_LIMIT": "1073741824",
    "FEATURE_GATES": "ReservedCapacity=true,SpotToSpotConsolidation=false,NodeRepair=false,NodeOverlay=false,"
    "StaticCapacity=false,CapacityBuffer=false",
    "AWS_FEATURE_GATES": "NodeClassCEL=false",
    "BATCH_MAX_DURATION": "10s",
    "BATCH_IDLE_DURATION": "1s",
    "PREFERENCE_POLICY": "Respect",
    "MIN_VALUES_POLICY": "Strict",
    "CLUSTER_NAME": "demo",
    "VM_MEMORY_OVERHEAD_PERCENT": "0.075",
    "RESERVED_ENIS": "0",
    "IGNORE_DRA_REQUESTS": "true",
    "AMI_REFRESH_INTERVAL": "1m",
    "SUBNET_REFRESH_INTERVAL": "1m",
}
"""What Karpenter's Helm chart renders with its default values."""


def notices(flags=(), **variables):
    return {each.setting: each.text for each in read_environment(dict(flags), variables)[1]}


def test_the_list_has_every_variable_and_gate_of_karpenter_once():
    listed = [each.variable for each in KARPENTER_SETTINGS]
    assert sorted(listed) == sorted([*CORE, *AWS, *CHARTS])
    assert [each.name for each in KARPENTER_GATES if each.name != "Drift"] == GATES
    assert [each.name for each in AWS_GATES] == ["NodeClassCEL"]


def test_what_counts_as_implemented_is_a_setting_that_source_code_reads():
    """Outside the two modules that declare it: a setting that nothing reads has no effect."""
    source = Path(__file__).parents[1] / "src/dovetail"
    declaring = {source / "settings.py", source / "karpenter_settings.py"}
    text = "\n".join(path.read_text() for path in source.rglob("*.py") if path not in declaring)
    options = {"feature_gates", "preference_policy", "min_values_policy"}  # read by `Settings.options`
    own = {each.variable for each in setting_fields()}
    for each in KARPENTER_SETTINGS:
        assert (each.effect == "implemented") == (each.variable in own)
        if each.effect == "implemented" and each.name not in options:
            assert re.search(rf"settings\.{each.name}\b", text), each.variable


def test_the_environment_of_the_chart_gives_the_defaults_without_repair():
    settings, remarks = read_environment({}, CHART)
    assert settings.options == DecisionOptions(node_repair=False)
    assert {each.setting for each in remarks} == {
        *("KUBERNETES_MIN_VERSION", "KARPENTER_SERVICE", "SYSTEM_NAMESPACE", "CPU_REQUESTS", "MEMORY_LIMIT")
    }
    assert all(each.text.startswith("no effect here, because ") and not each.warning for each in remarks)


@pytest.mark.parametrize(
    "text",
    [
        "Drift=true,SpotToSpotConsolidation=false",
        "StaticCapacity=,SpotToSpotConsolidation=false,NodeRepair=false,CapacityBuffer=",
        "NodeRepair=F, ReservedCapacity=1,,",
    ],
)
def test_lists_of_gates_of_any_chart_are_accepted_without_a_remark(text):
    assert notices(FEATURE_GATES=text) == {}


def test_gates_are_parsed_as_in_go():
    assert parse_gates(" A = T ,B=0,,C=") == {"A": True, "B": False}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Drfit=false", "unknown feature gate 'Drfit' is ignored; did you mean Drift?"),
        ("StaticCapacity=true", "StaticCapacity=true has no effect here, because NodePools with spec.replicas"),
        ("NodeOverlay=1", "NodeOverlay=true has no effect here, because NodeOverlays are not applied"),
        ("CapacityBuffer=true", "no spare capacity is kept"),
        ("ReservedCapacity=false", "ReservedCapacity=false has no effect here, because it is always on"),
    ],
)
def test_a_gate_that_is_not_followed_is_reported(text, words):
    assert words in notices(FEATURE_GATES=text)["FEATURE_GATES"]


def test_expressions_in_node_classes_are_reported_as_not_evaluated():
    assert "are not evaluated" in notices(AWS_FEATURE_GATES="NodeClassCEL=true")["AWS_FEATURE_GATES"]


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("METRICS_PORT", "http"),
        ("KUBE_CLIENT_BURST", "1_000"),
        ("KUBE_CLIENT_QPS", " 5"),
        ("VM_MEMORY_OVERHEAD_PERCENT", "7%"),
        ("ISOLATED_VPC", "yes"),
        ("BATCH_MAX_DURATION", "10"),
        ("MEMORY_LIMIT", "1Gi"),
    ],
)
def test_a_variable_that_go_cannot_parse_keeps_its_default_and_is_reported(variable, text):
    settings, remarks = read_environment({}, {variable: text})
    assert settings == Settings()
    assert [(each.setting, each.warning) for each in remarks] == [(variable, True)]
    assert "cannot be parsed and is ignored, as in Karpenter" in remarks[0].text


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"metrics_port": "http"}, "--metrics-port (METRICS_PORT): must be a port number"),
        ({"memory_limit": "1Gi"}, "--memory-limit (MEMORY_LIMIT): is not valid: '1Gi'"),
        ({"isolated_vpc": "1"}, "--isolated-vpc (ISOLATED_VPC): must be true or false"),
        ({"ignore_dra_requests": "false"}, "--ignore-dra-requests (IGNORE_DRA_REQUESTS): false is refused, because"),
        ({"aws_feature_gates": "NodeClassCEL"}, "--aws-feature-gates (AWS_FEATURE_GATES): 'NodeClassCEL' must be"),
    ],
)
def test_a_flag_that_cannot_be_parsed_or_is_refused_stops(flags, words):
    with pytest.raises(ValueError, match="--") as refused:
        read_environment(flags, {})
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("variable", "text"),
    [("PREFERENCE_POLICY", "ignore"), ("LOG_LEVEL", "INFO"), ("FEATURE_GATES", "Drift"), ("RESERVED_ENIS", "-1")],
)
def test_choices_gates_and_ranges_stop_karpenter_too(variable, text):
    with pytest.raises(ValueError, match=variable):
        read_environment({}, {variable: text})


def test_our_own_variables_are_not_ignored_when_they_cannot_be_parsed():
    with pytest.raises(ValueError, match=r"DOVETAIL_DRY_RUN.*must be true or false"):
        read_environment({}, {"DOVETAIL_DRY_RUN": "yes"})


@pytest.mark.parametrize(("text", "value"), [("t", True), ("1", True), ("TRUE", True), ("F", False), ("0", False)])
def test_booleans_in_variables_are_those_of_go(text, value):
    assert read_environment({}, {"ISOLATED_VPC": text})[0].isolated_vpc is value


def test_a_flag_takes_precedence_and_an_empty_variable_is_unset():
    variables = {"METRICS_PORT": "9090", "HEALTH_PROBE_PORT": "", "FEATURE_GATES": "", "MEMORY_LIMIT": ""}
    settings, remarks = read_environment({"metrics_port": "9091"}, variables)
    assert (settings.metrics_port, settings.health_probe_port, remarks) == (9091, 8081, ())


def test_an_idle_duration_beyond_the_longest_batch_has_no_effect_in_variables():
    settings, remarks = read_environment({}, {"BATCH_IDLE_DURATION": "30s"})
    assert settings.batch_idle_duration == timedelta(seconds=10)
    assert [each.setting for each in remarks] == ["BATCH_IDLE_DURATION"]


@pytest.mark.parametrize(
    ("variable", "text"),
    [("ENABLE_PROFILING", "true"), ("DISABLE_CONTROLLER_WARMUP", "false"), ("LOG_ERROR_OUTPUT_PATHS", "stdout")],
)
def test_what_is_accepted_without_effect_says_so(variable, text):
    assert notices(**{variable: text})[variable].startswith("no effect here, because ")
