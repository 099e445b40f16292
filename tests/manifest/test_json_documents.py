"""JSON with lines agrees with the decoder of Python and with the YAML reader, which also knows lines."""

import json
from random import Random

import pytest

from dovetail.manifest.json_documents import JsonInvalid, read_json
from dovetail.manifest.safe_yaml import TooDeep, read_yaml


def value(random, depth):
    kind = random.choice(
        ("text", "number", "word", "map", "list", "map", "list") if depth else ("text", "number", "word")
    )
    if kind == "map":
        return {random.choice(("a", "b.c", "d/e", '"', "\\", "{", "")): value(random, depth - 1) for _ in range(4)}
    if kind == "list":
        return [value(random, depth - 1) for _ in range(random.randrange(4))]
    return {"text": random.choice(("", "x\\ny", '"[{,:', "\n")), "number": -1.5, "word": None}[kind]


@pytest.mark.parametrize("seed", range(30))
def test_values_and_lines_are_those_of_the_yaml_reader(seed):
    random = Random(seed)  # noqa: S311 - repeatable
    content = {"top": value(random, 4)}
    text = json.dumps(content, indent=random.choice((None, 1, 2)))
    [read] = read_json(text)
    assert read.content == content
    assert read.lines == read_yaml(text, located=True).lines


def test_broken_json_has_its_line():
    with pytest.raises(JsonInvalid) as caught:
        read_json('{"a": 1}\n{"b": 2,\n"c" 3}')
    assert caught.value.line == 2


def test_nesting_is_bounded():
    for levels in (101, 100_000):
        with pytest.raises(TooDeep):
            read_json('{"a":' * levels + "1" + "}" * levels)
    assert read_json('{"a":' * 100 + "1" + "}" * 100)
