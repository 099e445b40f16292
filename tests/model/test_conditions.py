"""What is written as a condition is accepted by Karpenter's CRDs, which are stricter than ours."""

import re
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from dovetail.model.conditions import ConditionList, ConditionVerdict, condition_document
from dovetail.model.kube_object import Condition

NOW = datetime(2026, 1, 1, tzinfo=UTC)
REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", re.ASCII)


def written(verdict):
    (condition,) = ConditionList((), (), NOW, 1, NOW).set(verdict)
    return condition_document(condition)


@given(
    reason=st.text(alphabet="aZ0_,:.- é\n") | st.text(max_size=3000),
    message=st.text(max_size=10) | st.just("x" * 40_000),
)
def test_reason_and_message_are_what_the_schema_takes(reason, message):
    document = written(ConditionVerdict("Launched", "False", reason, message))
    assert REASON.fullmatch(document["reason"])
    assert len(document["reason"]) <= 1024
    assert len(document["message"]) <= 32768


@given(st.from_regex(REASON, fullmatch=True).filter(lambda reason: len(reason) <= 1024))
def test_a_reason_that_is_accepted_is_kept(reason):
    assert written(ConditionVerdict("Launched", "False", reason))["reason"] == reason


def test_an_error_code_stays_readable():
    assert (
        written(ConditionVerdict("SubnetsReady", "False", "InvalidSubnetID.NotFound"))["reason"]
        == "InvalidSubnetID_NotFound"
    )


def test_the_codes_of_aws_errors_become_reasons_that_the_schema_takes():
    code = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
    document = written(ConditionVerdict("Launched", "Unknown", code))
    assert document["reason"] == "AuthFailure_ServiceLinkedRoleCreationNotPermitted"


def test_every_field_of_a_condition_is_written():
    assert set(written(ConditionVerdict("Launched"))) == {
        "type",
        "status",
        "reason",
        "message",
        "lastTransitionTime",
        "observedGeneration",
    }


def test_a_condition_that_another_program_stored_is_corrected():
    stored = Condition(
        type="Ready", status="False", reason="Invalid.NotFound", message="x" * 40_000, last_transition_time=NOW
    )
    document = condition_document(stored)
    assert (document["reason"], len(document["message"])) == ("Invalid_NotFound", 32768)


def test_a_condition_of_another_program_without_a_reason_gets_one():
    document = condition_document(Condition(type="Ready", status="True", last_transition_time=NOW))
    assert (document["reason"], document["message"]) == ("Ready", "")


def test_a_condition_that_was_stored_without_a_time_gets_one():
    """Karpenter's CRDs refuse the whole list for one entry without it."""
    created_at = datetime(2025, 1, 1, tzinfo=UTC)
    stored = (Condition(type="Launched", status="True"), Condition(type="Other", status="True"))
    conditions = ConditionList(stored, ("Launched",), created_at, 1, NOW).set(ConditionVerdict("Launched"))
    assert {each.type: each.last_transition_time for each in conditions} == {
        "Launched": created_at,
        "Other": created_at,
        "Ready": NOW,
    }
