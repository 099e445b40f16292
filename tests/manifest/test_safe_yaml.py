"""YAML within limits: what is rejected, how, and that both parsers agree."""

import pytest
import yaml

from dovetail.manifest import safe_yaml
from dovetail.manifest.safe_yaml import TooDeep, YamlInvalid, read_yaml


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: {b: !!binary x}", "'x' is not base64"),
        ("a: !!int x", "'x' does not fit its tag !!int"),
        ("a: !!bool x", "'x' does not fit its tag !!bool"),
        ("a: !!timestamp x", "'x' is not a date"),
        ("~: x", "null cannot be the name of a field"),
        ("a: .nan", "'.nan' is not a finite number"),
        ("a: -.inf", "'-.inf' is not a finite number"),
        ("a:\n  <<: 5", "<< needs a mapping"),
        ("a: *b", "there is no anchor &b"),
        ("a: &a [*a]", "contains itself"),
        ("a: 1\n--- \nb: 1", "expected a single document"),
        ("? [a]\n: b", "cannot be the name of a field"),
        ("a: \x00", "not allowed"),
        ("a: \ud800", "surrogate"),
    ],
)
def test_unsupported_yaml_is_rejected_with_a_reason(text, words):
    with pytest.raises(YamlInvalid, match=r"(?s).*") as caught:
        read_yaml(text)
    assert words in str(caught.value)


def test_a_fault_has_its_line():
    with pytest.raises(YamlInvalid) as caught:
        read_yaml("spec:\n  list:\n  - a: 1\n  - a: !!int x\n")
    assert (caught.value.line, caught.value.path) == (3, "spec.list[1].a")


@pytest.mark.parametrize("opening", ["[", "{a: ", "- "])
def test_nesting_of_any_depth_is_refused_and_does_not_end_the_process(opening):
    with pytest.raises(TooDeep):
        read_yaml("a:\n " + opening * 100_000)


def test_aliases_cannot_nest_deeper_than_the_text_may():
    lines = "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 200))
    with pytest.raises(TooDeep):
        read_yaml("a0: &a0 [x]\n" + lines)


@pytest.mark.parametrize("leaf", ["[x, x]", '"' + "x" * 100_000 + '"'])
def test_what_aliases_repeat_is_bounded(leaf):
    ten = ", ".join(["*a{0}"] * 10)
    bomb = f"a0: &a0 {leaf}\n" + "".join(f"a{n}: &a{n} [{ten.format(n - 1)}]\n" for n in range(1, 9))
    with pytest.raises(YamlInvalid, match="too many values"):
        read_yaml(bomb)


def test_each_alias_has_a_value_of_its_own():
    content = read_yaml("a: &a {b: [1]}\nc: *a\nd: {<<: *a}").content
    content["a"]["b"].append(2)
    assert content["c"] == content["d"] == {"b": [1]}


def test_tags_of_other_applications_are_ignored():
    assert read_yaml("[!mine 5, !!set {a}, !!python/object/apply:os.getcwd []]").content == ["5", {"a": None}, []]


def test_a_number_without_bounds_is_text():
    assert read_yaml("[" + "9" * 5000 + ", 0x" + "f" * 5000 + "]").content == ["9" * 5000, "0x" + "f" * 5000]


DOCUMENTS = [
    "a: [1, 2.5, true, null, ~, x, '1', \"2\", 0x1f, 017, 1_000, 1e3, .5]\nb: &b {c: 1}\nd: *b\ne: {<<: *b, c: 2}\n",
    "# only a comment\n",
    "a: |\n  text\n  more\nb: >-\n  folded\n  text\n",
    "- !!str 5\n- !!int '7'\n- !!float 3\n- !!null ~\n- ! 5\n",
]


@pytest.mark.parametrize("text", DOCUMENTS)
def test_both_parsers_read_the_same(text, monkeypatch):
    fast = read_yaml(text, located=True)
    monkeypatch.setattr(safe_yaml, "PARSER", safe_yaml._PythonParser)
    assert read_yaml(text, located=True) == fast


@pytest.mark.parametrize(
    "text", ["a: yes\nb: No\nc: ON\nd: ~\ne:\nf: Null", "a: 1\nb: -5\nc: +3\nd: 0b11\ne: 0", "{}", "[]"]
)
def test_scalars_are_those_of_pyyaml(text):
    assert read_yaml(text).content == yaml.safe_load(text)
