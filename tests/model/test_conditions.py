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


def test_a_condition_of_another_program_without_a_reason_gets_one():
    document = condition_document(Condition(type="Ready", status="True", last_transition_time=NOW))
    assert (document["reason"], document["message"]) == ("Ready", "")
