"""The report of the suite becomes one result for each spec."""

import json

from conformance.report import Outcome, Result, only_result, read_report, read_suite_failure


def node(text, state="passed", kind="It", containers=("Drift", "Budgets"), **more):
    return {
        "ContainerHierarchyTexts": list(containers),
        "LeafNodeType": kind,
        "LeafNodeText": text,
        "State": state,
        "RunTime": 1_500_000_000,
        **more,
    }


def report(*nodes, **suite):
    return json.dumps([{"SuiteDescription": "Regression", "SpecReports": list(nodes), **suite}])


FAILURE = {"Message": "Timed out\n  after 900s.", "Location": {"FileName": "/a/b/drift_test.go", "LineNumber": 42}}


def test_a_spec_is_named_by_its_containers_and_its_text():
    (result,) = read_report(report(node("should wait")))
    assert result == Result("Drift Budgets should wait", Outcome.PASSED, 1.5)


def test_set_up_and_clean_up_are_no_specs():
    text = report(node("", kind="BeforeSuite", containers=()), node("should wait"), node("", kind="AfterSuite"))
    assert [each.spec for each in read_report(text)] == ["Drift Budgets should wait"]


def test_a_failure_says_where_and_why_on_one_line():
    (result,) = read_report(report(node("should wait", "failed", Failure=FAILURE)))
    assert (result.outcome, result.message) == (Outcome.FAILED, "drift_test.go:42: Timed out after 900s.")


def test_a_panic_is_a_failure_and_a_stopped_spec_timed_out():
    states = ["panicked", "aborted", "timedout", "interrupted", "skipped", "pending"]
    outcomes = [each.outcome for each in read_report(report(*(node(state, state) for state in states)))]
    assert outcomes == [Outcome.FAILED, Outcome.FAILED, *[Outcome.TIMED_OUT] * 2, *[Outcome.SKIPPED] * 2]


def test_a_suite_that_fails_before_its_specs_says_so(tmp_path):
    text = report(
        node("", "failed", kind="BeforeSuite", containers=(), Failure={"Message": "no cluster"}), node("a", "skipped")
    )
    (tmp_path / "report.json").write_text(text)
    assert read_suite_failure(text) == "no cluster"
    result = only_result(tmp_path / "report.json", "Drift Budgets a")
    assert (result.outcome, result.message) == (Outcome.FAILED, "no cluster")


def test_a_missing_report_is_a_failure_of_the_spec(tmp_path):
    result = only_result(tmp_path / "none.json", "Drift a")
    assert result.outcome is Outcome.FAILED
    assert "wrote no report" in result.message


def test_the_result_of_the_one_spec_is_found_among_those_that_were_skipped(tmp_path):
    (tmp_path / "report.json").write_text(report(node("a", "skipped"), node("b")))
    assert only_result(tmp_path / "report.json", "Drift Budgets b").outcome is Outcome.PASSED
    assert only_result(tmp_path / "report.json", "Drift Budgets a").outcome is Outcome.SKIPPED
