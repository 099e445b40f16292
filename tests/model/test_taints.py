import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.model.taints import (
    DISRUPTED_TAINT,
    DISRUPTION_TAINT,
    EPHEMERAL_TAINTS,
    UNREGISTERED_TAINT,
    Taint,
    Toleration,
    is_ephemeral,
    tolerates,
    untolerated,
)

DEDICATED = Taint("dedicated", "gpu", "NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        (Toleration("dedicated", "Equal", "gpu", "NoSchedule"), True),
        (Toleration("dedicated", "", "gpu"), True),
        (Toleration("dedicated", "Equal", "cpu"), False),
        (Toleration("dedicated", "Exists"), True),
        (Toleration("dedicated", "Exists", effect="NoExecute"), False),
        (Toleration("other", "Exists"), False),
        (Toleration(operator="Exists"), True),
        (Toleration("dedicated", "Resembles", "gpu"), False),
    ],
)
def test_a_toleration_covers_by_key_effect_and_value(toleration, covers):
    assert tolerates([toleration], DEDICATED) is covers


@pytest.mark.parametrize(
    ("operator", "toleration", "taint", "covers"),
    [
        ("Gt", "950", "951", True),
        ("Gt", "950", "950", False),
        ("Lt", "950", "949", True),
        ("Lt", "-5", "-6", True),
        ("Lt", "950", "950", False),
        ("Gt", "0950", "951", False),
        ("Gt", "1", "+2", False),
        ("Gt", "1", "high", False),
        ("Gt", "1", "9223372036854775808", False),
        ("Gt", "", "1", False),
    ],
)
def test_numeric_tolerations_compare_plain_integers(operator, toleration, taint, covers):
    tainted = Taint("sla", taint, "NoExecute")
    assert tolerates([Toleration("sla", operator, toleration)], tainted) is covers


def test_the_first_untolerated_taint_is_named():
    first, second = Taint("a", effect="NoSchedule"), Taint("b", effect="PreferNoSchedule")
    assert untolerated([Toleration("a", "Exists")], [first, second]) == second
    assert untolerated([], [first, second]) == first
    assert untolerated([Toleration(operator="Exists")], [first, second]) is None
    assert untolerated([], []) is None


def test_taints_are_the_same_by_key_and_effect():
    assert DEDICATED.matches(Taint("dedicated", "cpu", "NoSchedule"))
    assert not DEDICATED.matches(Taint("dedicated", "gpu", "NoExecute"))


def test_a_taint_reads_as_kubectl_writes_it():
    assert str(DEDICATED) == "dedicated=gpu:NoSchedule"
    assert str(DISRUPTED_TAINT) == "karpenter.sh/disrupted:NoSchedule"
    assert str(DISRUPTION_TAINT) == "karpenter.sh/disruption=disrupting:NoSchedule"
    assert str(UNREGISTERED_TAINT) == "karpenter.sh/unregistered:NoExecute"


@pytest.mark.parametrize(
    ("taint", "ephemeral"),
    [
        *((taint, True) for taint in EPHEMERAL_TAINTS),
        (Taint("node.cloudprovider.kubernetes.io/uninitialized", "false", "NoSchedule"), True),
        (Taint("readiness.k8s.io/network", effect="NoSchedule"), True),
        (Taint("node.kubernetes.io/unreachable", effect="NoExecute"), False),
        (DISRUPTED_TAINT, False),
    ],
)
def test_taints_of_starting_nodes_go_away_by_themselves(taint, ephemeral):
    assert is_ephemeral(taint) is ephemeral


def test_both_are_written_as_kubernetes_spells_them():
    wire = b'{"key":"a","operator":"Exists","tolerationSeconds":300}'
    assert msgspec.json.encode(msgspec.json.decode(wire, type=Toleration)) == wire
    wire = b'{"key":"a","effect":"NoExecute","timeAdded":"2025-06-11T12:00:00Z"}'
    assert msgspec.json.encode(msgspec.json.decode(wire, type=Taint)) == wire


@given(st.text(max_size=5), st.text(max_size=5), st.text(max_size=5))
def test_the_toleration_of_everything_tolerates_everything(key, value, effect):
    assert tolerates([Toleration(operator="Exists")], Taint(key, value, effect))
