"""A suggested value is valid: put in place of the invalid one, it removes the fault."""

import re
from copy import deepcopy

import pytest

from dovetail.manifest.corrections import in_yaml, suggestion
from dovetail.manifest.patterns import BUDGET_NODES, DELAY, QUANTITY, SCHEDULE, WINDOW
from dovetail.manifest.schema_check import examine
from dovetail.manifest.validation import faults_of
from manifest.corpus import CASES, disrupted, pool
from manifest.ec2nodeclass_corpus import EC2_CASES
from manifest.seed_examples import EXAMPLES

WRONG = (30, 0, -5, True, False, 1.5, "", " ", "30", "30 s", "30d", "never", "true", "whenempty", "5 %", "x", [], {})
STEP = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


def steps(path):
    return [inner or name for inner, name in STEP.findall(path)]


def with_value(document, path, value):
    changed = deepcopy(document)
    *parents, last = steps(path)
    holder = changed
    for name in parents:
        holder = holder[int(name)] if isinstance(holder, list) else holder[name]
    holder[int(last) if isinstance(holder, list) else last] = value
    return changed


def leaves(value, path=""):
    if isinstance(value, dict):
        for name, each in value.items():
            bracketed = any(sign in name for sign in "./[] ") or not name
            yield from leaves(each, f"{path}[{name}]" if bracketed else f"{path}.{name}".removeprefix("."))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from leaves(each, f"{path}[{index}]")
    else:
        yield path


def assert_fixes_are_valid(document):
    count = 0
    for fault in faults_of(document).faults:
        if fault.fix is not None:
            fixed = faults_of(with_value(document, fault.path, fault.fix)).faults
            assert (fault.path, fault.problem) not in {(each.path, each.problem) for each in fixed}, fault
            assert in_yaml(fault.fix) in fault.remedy, fault
            count += 1
    return count


@pytest.mark.parametrize("value", [1.5, 1000.0])
def test_a_fraction_is_quoted_only_where_quotes_make_it_valid(value):
    (delay,) = faults_of(disrupted(consolidateAfter=value)).faults
    assert delay.remedy.startswith("write a duration")
    (label,) = faults_of(pool(metadata={"labels": {"version": value}})).faults
    assert label.remedy.startswith("put it in quotes: ")
    assert label.fix is None, "which text was written, 1.5 or 1.50, is not known"


def test_every_suggestion_for_the_corpus_is_valid():
    assert sum(assert_fixes_are_valid(case.document) for case in (*CASES, *EC2_CASES, *EXAMPLES)) > 10


def test_every_suggestion_for_a_wrong_value_is_valid():
    """Every field of the corpus with every wrong value, a part of them."""
    fields = [
        (case.document, path) for case in (*CASES, *EC2_CASES) if not case.fault for path in leaves(case.document)
    ]
    pairs = [(*field, wrong) for field in fields for wrong in WRONG if field[1] not in ("apiVersion", "kind")]
    assert sum(assert_fixes_are_valid(with_value(*each)) for each in pairs[::71]) > 20


@pytest.mark.parametrize(
    ("pattern", "value", "fix"),
    [
        (DELAY, 30, "30s"),
        (DELAY, "30", "30s"),
        (DELAY, "30d", "720h"),
        (DELAY, "1.5h", "1h30m"),
        (DELAY, "90 minutes", "1h30m"),
        (DELAY, "never", "Never"),
        (DELAY, "-5s", None),
        (WINDOW, "8 hours", "8h"),
        (WINDOW, "30s", None),
        (BUDGET_NODES, 5, "5"),
        (BUDGET_NODES, "5 %", "5%"),
        (QUANTITY, "64 GB", "64G"),
        (QUANTITY, "64gi", "64Gi"),
        (SCHEDULE, "0 9 * * 7", "0 9 * * 0"),
        (SCHEDULE, "0 0 9 * * mon-fri", "0 9 * * mon-fri"),
    ],
)
def test_what_was_probably_meant(pattern, value, fix):
    schema = {"type": "string", "pattern": pattern}
    assert suggestion(schema, value, lambda schema, each: not examine(schema, each).faults) == fix


def test_long_text_is_refused_in_linear_time():
    assert [fault.fix for fault in faults_of(disrupted(consolidateAfter="1" * 200_000)).faults] == [None]


def test_the_remedy_shows_how_to_write_the_value():
    [fault] = faults_of(disrupted(consolidateAfter=30)).faults
    assert (fault.problem, fault.fix) == ("must be text, not a whole number", "30s")
    assert fault.remedy.startswith("write 30s: a duration")


@pytest.mark.parametrize(("value", "text"), [("5", '"5"'), ("30s", "30s"), ("y", '"y"'), ("", '""'), (True, "true")])
def test_values_are_shown_as_in_a_manifest(value, text):
    assert in_yaml(value) == text
