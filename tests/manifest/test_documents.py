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
        ("x: &x {b: 1, c: 2}\nz:\n  <<: *x\n  c: 3\n", [{"x": {"b": 1, "c": 2}, "z": {"b": 1, "c": 3}}]),
        ('{"a": 1}{"b": 2}\n{"c": 3}\n', [{"a": 1}, {"b": 2}, {"c": 3}]),
        ('a: 1\n---\n{"b": 2}\n---# comment\nc: 3\n', [{"a": 1}, {"b": 2}, {"c": 3}]),
        ("a: 1\r\n---\r\nb: 2\r\n", [{"a": 1}, {"b": 2}]),
        ("kind: NodePoolList\napiVersion: g/v1\nitems: [{a: 1}]", [{"kind": "NodePool", "apiVersion": "g/v1", "a": 1}]),
        ("kind: List\nitems: [{kind: List, items: [{a: 1}]}, {b: 2}]", [{"a": 1}, {"b": 2}]),
        ("", []),
    ],
)
def test_streams_lists_and_json_are_read(text, expected):
    assert contents(text) == expected


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("2024-01-31T12:00:00Z", "2024-01-31T12:00:00Z"),
        ("014", 12),
        ("y", True),
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
    [_, second] = documents("a: 1\n---\n# comment\nspec:\n  list:\n  - x: 1\n  - x: 2\n    z: 3\n")
    assert second.line_of("spec.list[1].z") == 8
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
    ["a: [1,\nb: 2\n", "a:\n  b: 1\n c: 2\n", "a: *nobody\n", "\ta: 1\n", "{a: 1", "a: !!int x"],
)
def test_broken_text_is_a_fault_with_its_line(text):
    [document] = documents(text)
    assert document.content is None
    assert "cannot be read as YAML (line " in document.faults[0].problem


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: [1,\nb: 2\nc: 3\n", 1, "the '[' is not closed"),
        ("a: 1\nb: {c: 1\nd: 2\n", 2, "the '{' is not closed"),
        ("a:\n  b: 1\n c: 2\n", 3, "the indentation differs from the lines above"),
        ("a: 1\nb\nc: 3\n", 2, "the name of a field must be followed by ': '"),
        ("a: 1\nb: 'x\nc: 3\nd: 4\n", 2, "the quote is not closed"),
        ('a: 1\nb: "x\n---\nc: 3\n', 2, "the quote is not closed"),
        ('a: 1\nb: "x\nc: 3\nd: ["y"]\n', 2, "the quote is not closed"),
        ("a: 1\nb: 'x\nc: it's\n", 2, "the quote is not closed"),
        ('a: "x\n  y"\nb: [1\nc: 2\n', 3, "the '[' is not closed"),
        ("a:\n\tb: 1\n", 2, "a tab is not allowed as indentation"),
        ("a: 1\nb: @x\n", 2, "text that starts with @ needs quotes"),
        ("a: b: c\n", 1, "': ' is not allowed here"),
        ("a:\n- b\nc\n", 3, "followed by ': '"),
        ("a: - b\n", 1, "a list starts on its own line"),
        ("a: 1\r\nb:\r\n  c: [\r\n", 3, "a bracket is not closed"),
        ("\ufeffa: 1\nb: [\n", 2, "a bracket is not closed"),
        ("# x\n--- # y\n\na: [\n", 4, "a bracket is not closed"),
        ("a: 1\n...\nb: 2\n", 3, "text follows the end of the document"),
        ("a: 1\nb: !!int x\n", 2, "'x' does not fit its tag !!int"),
        ('{\n\t"a": 1\n\t"b": 2\n}', 3, "expecting ',' delimiter"),
        ('{"a": 1}\n{"b": }\n', 2, "expecting value"),
        ("a: 1\n---\n{\n  b: [\n}", 4, "a bracket is not closed"),
    ],
)
def test_a_syntax_error_is_on_the_line_to_look_at_in_plain_words(text, line, words):
    broken = next(document for document in documents(text) if document.content is None)
    assert broken.line_of("$") == line
    assert f"(line {line})" in broken.faults[0].problem
    assert words in broken.faults[0].problem


@pytest.mark.parametrize("text", ["--- {a: 1}\n", "---a: 1\n", "-----\na: 1\n", "a: 1\n--- |\n  x\n"])
def test_text_after_a_separator_is_a_fault_as_for_kubectl(text):
    [document] = [each for each in documents(text) if each.content is None]
    assert "has text after the separator" in document.faults[0].problem


def test_a_yaml_directive_is_a_fault_as_for_kubectl():
    first, second = documents("%YAML 1.1\n---\na: 1\n")
    assert "kubectl does not read YAML directives" in first.faults[0].remedy
    assert second.content == {"a": 1}


def test_fields_of_json_know_their_line():
    text = '\n{"a": 1}\n{\n  "kind": "List",\n  "items": [\n    {"b": [1,\n 2, {"c": 3}],\n '
    text += '"d.e": "x\\n[{"},\n {}, {"b": 1}\n]}\n'
    first, second, third, fourth = documents(text)
    assert (first.line, second.line, third.line, fourth.line) == (2, 6, 9, 9)
    assert [second.line_of(path) for path in ("b[0]", "b[1]", "b[2].c", "[d.e]")] == [6, 7, 7, 8]
    assert fourth.line_of("b") == 9


def test_a_duplicate_key_in_json_has_its_path_and_line():
    [document] = documents('{"spec": {\n"a": 1,\n"b": {"a": 2},\n"a": 3}}')
    assert [fault.path for fault in document.faults] == ["spec.a"]
    assert document.line_of("spec.a") == 2


def test_a_duplicate_key_is_a_fault_of_its_item_alone():
    found = documents("kind: List\nitems:\n- a: 1\n- b: 1\n  b: 2\n- c: 1\n")
    assert [[fault.path for fault in document.faults] for document in found] == [[], ["b"], []]


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
        ("a: [\n", "close it there"),
        ("a:\n\tb: 1\n", "use spaces"),
        ("a: b: c\n", "check indentation"),
        ("a: \x00", "remove it"),
        ('{"a": "\\ud800"}', "check indentation"),
    ],
)
def test_the_remedy_is_about_what_is_wrong(text, remedy):
    assert remedy in documents(text)[0].faults[0].remedy


def test_deep_nesting_is_a_fault():
    [document] = documents("[" * 5000 + "]" * 5000)
    assert document.faults


def test_json_round_trips():
    content = {"a": {"b": [1, "2", None, True]}}
    assert contents(json.dumps(content)) == [content]


def test_a_placeholder_is_not_blamed_for_another_syntax_error():
    text = "kind: NodePool\nmetadata:\n  name: ${NAME}\n\tnamespace: a\n"
    [document] = read_documents(text, "a.yaml")
    assert "a tab is not allowed" in document.faults[0].problem
    assert document.line_of("$") == 4
    [document] = read_documents("kind: NodePool\nmetadata: {name: ${NAME}}\n", "a.yaml")
    assert "is a template, not a manifest: ${NAME} on line 2" in document.faults[0].problem
    [document] = read_documents("kind: NodePool\n{{ if a }}\nmetadata: {}\n{{ end }}\n", "a.yaml")
    assert "is a template, not a manifest" in document.faults[0].problem


def test_a_key_that_occurs_three_times_is_one_fault():
    [document] = read_documents("kind: a\nkind: b\nkind: c\n", "a.yaml")
    assert [fault.path for fault in document.faults] == ["kind"]
