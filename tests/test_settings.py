"""Settings from text: all faults together with flag, variable and remedy; environment variables."""

from dataclasses import fields, replace
from datetime import timedelta

import pytest

from dovetail.settings import (
    KARPENTER_NAMES,
    PREFIX,
    STANDARD_VARIABLES,
    DecisionOptions,
    Settings,
    read_settings,
    setting_fields,
)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        (
            "kube_client_qps",
            "nan",
            "--kube-client-qps (KUBE_CLIENT_QPS): must be a number such as 200 or 0.5, got 'nan'",
        ),
        ("kube_client_qps", "inf", "must be a number such as 200 or 0.5, got 'inf'"),
        ("kube_client_qps", "fast", "must be a number such as 200 or 0.5, got 'fast'"),
        ("kube_client_qps", "0", "must be greater than 0, got '0'"),
        ("kube_client_burst", "1.5", "must be a whole number, got '1.5'"),
        ("batch_idle_duration", "0s", "must be longer than 0s"),
        (
            "batch_idle_duration",
            "11s",
            "11s is longer than the 10s of --batch-max-duration; make it shorter",
        ),
        ("disruption", "maybe", "--disruption (DOVETAIL_DISRUPTION): must be one of off, on, got 'maybe'"),
        ("feature_gates", "Drift", "'Drift' must be Name=true or Name=false"),
        ("feature_gates", "Drift=yes", "'Drift=yes' must be Name=true or Name=false"),
        ("cluster_ca_bundle", "-----BEGIN", "must be base64-encoded, got '-----BEGIN'"),
        ("cluster_endpoint", "example.com", "must be a URL such as https://example.com, got 'example.com'"),
        ("ami_refresh_interval", "59s", "must be at least 1m0s, got '59s'"),
        ("metrics_port", "70000", "must be a port"),
        ("metrics_port", "9" * 5000, "must be a port number, or 0 to disable it, got '999"),
        ("kube_client_burst", "9" * 400, "must be at most 1,000,000,000, got '999"),
        ("kube_client_burst", "9" * 5000, "must be a whole number, got '999"),
        ("dry_run", "yes", "must be true or false, got 'yes'"),
    ],
)
def test_what_cannot_be_read_is_refused_with_flag_variable_and_remedy(name, text, words):
    with pytest.raises(ValueError, match="--") as refused:
        read_settings({name: text})
    assert words in str(refused.value)


def test_all_faults_are_reported_together():
    with pytest.raises(ValueError, match="--") as refused:
        read_settings({"kube_client_qps": "nan", "log_level": "loud", "batch_max_duration": "1ms"})
    assert len(str(refused.value).splitlines()) == 3


def test_what_is_not_given_is_as_declared():
    assert read_settings({}) == Settings()


def test_variables_are_karpenters_own_or_ours():
    """A variable called PROVIDER or LEDGER may well be meant for somebody else."""
    for setting in setting_fields():
        own = setting.name.upper() if setting.name in KARPENTER_NAMES else PREFIX + setting.name.upper()
        assert setting.variable == STANDARD_VARIABLES.get(setting.name, own)
    assert {"FEATURE_GATES", "LOG_LEVEL", "DOVETAIL_PROVIDER", "DOVETAIL_LEDGER"} <= {
        setting.variable for setting in setting_fields()
    }


def test_every_setting_has_a_default_that_reads_as_itself():
    for each in fields(Settings):
        if isinstance(each.default, (bool, int, float)):
            assert getattr(read_settings({each.name: str(each.default).lower()}), each.name) == each.default


def test_a_bound_below_the_pace_of_bookmarks_is_refused():
    with pytest.raises(ValueError, match=r"--watch-stale-after .*must be at least 1m30s, got 1m0s;"):
        read_settings({"watch_stale_after": "1m"})
    assert read_settings({"watch_stale_after": "90s"}).watch_stale_after == timedelta(seconds=90)


@pytest.mark.parametrize(
    ("written", "option", "value"),
    [
        ({"feature_gates": "Drift=false"}, "drift", False),
        ({"feature_gates": "SpotToSpotConsolidation=true, NodeRepair=true"}, "spot_to_spot", True),
        ({"feature_gates": "NodeRepair=false"}, "node_repair", False),
        ({"preference_policy": "Ignore"}, "respect_preferences", False),
        ({"node_sizing": "one-by-one"}, "sizes_by_price", False),
        ({"repair_without_block": "provider"}, "repair_without_block", True),
        ({"manual_deletion": "wait"}, "manual_deletion", "wait"),
        ({"rebalance_recommendation": "drain"}, "drain_on_rebalance", True),
    ],
)
def test_each_decision_option_follows_its_setting_alone(written, option, value):
    assert read_settings(written).options == replace(DecisionOptions(), **{option: value}) != DecisionOptions()


def test_the_default_settings_have_the_default_options():
    assert read_settings({}).options == read_settings({"feature_gates": ""}).options == DecisionOptions()
