"""Splitting text into documents: streams, lists, JSON, line numbers, and invalid text."""

import json

import pytest

from dovetail.manifest.documents import read_documents


def documents(text):
    return list(read_documents(text, "file.yaml"))


def contents(text):
    return [document.content for document in documents(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\n---\nb: 2\n", [{"a": 1}, {"b": 2}]),
        ("---\na: 1\n---\n---\n# nothing\n---\nb: 2\n...\n", [{"a": 1}, {"b": 2}]),
        ("--- # first\na: 1\n", [{"a": 1}]),
        ("\ufeffa: 1\n", [{"a": 1}]),
        ('{"a": [1, 2]}', [{"a": [1, 2]}]),
        ('{\n\t"a": 1\n}', [{"a": 1}]),
        ("{a: 1}", [{"a": 1}]),
        ("apiVersion: v1\nkind: List\nitems: [{a: 1}, {b: 2}]", [{"a": 1}, {"b": 2}]),
        ('{"kind": "List", "items": [{"a": 1}]}', [{"a": 1}]),
        ("x: &x {b: 1, c: 2}\ny:\n  <<: *x\n  c: 3\n", [{"x": {"b": 1, "c": 2}, "y": {"b": 1, "c": 3}}]),
        ("", []),
    ],
)
def test_streams_lists_and_json_are_read(text, expected):
    assert contents(text) == expected


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("2024-01-31T12:00:00Z", "2024-01-31T12:00:00Z"),
        ("12:30:45", "12:30:45"),
        ("10m", "10m"),
        ("0x1f", 31),
        ("1e3", 1000.0),
        ("1.5", 1.5),
        ("yes", True),
        ("~", None),
        ('"10"', "10"),
        ("1k", "1k"),
    ],
)
def test_scalars_mean_what_they_mean_to_kubectl(scalar, value):
    assert contents(f"a: {scalar}") == [{"a": value}]


def test_names_of_fields_become_text():
    assert contents("1: a\ntrue: b\n") == [{"1": "a", "true": "b"}]


def test_every_field_knows_its_line():
    [_, second] = documents("a: 1\n---\n# comment\nspec:\n  list:\n  - x: 1\n  - x: 2\n    y: 3\n")
    assert second.line_of("spec.list[1].y") == 8
    assert second.line_of("spec.list[1].absent") == 7
    assert second.line_of("elsewhere") == second.line == 4


def test_items_of_a_list_know_their_lines():
    [_, second] = documents("kind: List\nitems:\n- a: 1\n- b:\n    c: 2\n")
    assert second.line_of("b.c") == 5


@pytest.mark.parametrize("text", ["spec:\n  a: 1\n  b: 2\n  a: 3\n", '{"spec": {"a": 1, "a": 3}}'])
def test_a_duplicate_key_is_a_fault(text):
    [document] = documents(text)
    assert "occurs twice" in document.faults[0].problem
    assert document.faults[0].path.endswith("a")


@pytest.mark.parametrize(
    "text",
    [
        "name: {{ .Values.name }}\n",
        "{{- if .Values.on }}\na: 1\n{{- end }}\n",
        "a: 1\n{% for x in y %}\n  - b\n{% endfor %}\n",
    ],
)
def test_a_template_is_named_as_such(text):
    [document] = documents(text)
    assert document.content is None
    assert "is a template" in document.faults[0].problem
    assert "render it first" in document.faults[0].remedy


@pytest.mark.parametrize(
    "text",
    ["a: [1,\nb: 2\n", "a:\n  b: 1\n c: 2\n", "a: *nobody\n", "\ta: 1\n", '{"a": 1', "a: !!python/object:os.system x"],
)
def test_broken_text_is_a_fault_with_its_line(text):
    [document] = documents(text)
    assert document.content is None
    assert "cannot be read as YAML (line " in document.faults[0].problem


def test_one_broken_document_does_not_hide_the_others():
    first, second, third = documents("a: 1\n---\nb: [\n---\nc: 3\n")
    assert (first.content, second.content, third.content) == ({"a": 1}, None, {"c": 3})
    assert (second.index, second.line) == (2, 2)


def test_aliases_cannot_exhaust_memory_or_go_round():
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 30))
    assert "too many values" in documents(bomb)[0].faults[0].problem
    assert "contains itself" in documents("a: &a [*a]\n")[0].faults[0].problem


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("a0: &a [x, x]\n" + "b: &a [*a, *a]\n" * 30, "write out its value"),
        ("a: &a [*a]\n", "write out its value"),
        ("a: *a\n", "define the anchor above the alias"),
        ("a: [\n", "check indentation"),
        ('{"a": "\\ud800"}', "check indentation"),
    ],
    ids=["too many values", "contains itself", "no anchor", "syntax", "half a pair in JSON"],
)
def test_the_remedy_is_about_what_is_wrong(text, remedy):
    assert remedy in documents(text)[0].faults[0].remedy


def test_deep_nesting_is_a_fault():
    [document] = documents("[" * 5000 + "]" * 5000)
    assert document.faults


def test_json_round_trips():
    content = {"a": {"b": [1, "2", None, True]}}
    assert contents(json.dumps(content)) == [content]
