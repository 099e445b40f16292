"""Scalars and streams are what kubectl reads: 3,539 texts, compared with the modules of kubectl."""

import gzip
import json
from pathlib import Path

import pytest

from dovetail.manifest.documents import read_documents
from dovetail.manifest.safe_yaml import YamlInvalid, read_yaml
from dovetail.manifest.yaml_scalars import key_text, plain

VECTORS = Path(__file__).parents[1] / "data/kubectl_yaml/vectors.jsonl.gz"
ROWS = [json.loads(line) for line in gzip.decompress(VECTORS.read_bytes()).splitlines()]

STRICTER = ("'a' b", "\"a\" 'b'", "a: 1\n...\nb: 2\n", "a: 1\n... # x\nb: 2\n", "[]: 1\n", "{}: 1\n", '{"a":1}: 1\n')
"""kubectl silently ignores what follows the first value; here it is a fault."""
LOST = ("1: a\n'1': b\n", "1.0: a\n1: b\n")
"""Different keys that become the same name: kubectl keeps the last one; here they are duplicate keys."""
OTHER_PARSER = ("\\/", "\\'", "[a:]")
"""Parts of texts on which libyaml differs from the parser of kubectl."""
OTHER_JSON = ('{"a": "\\ud800"}', '{"a": 1e999}', '{"a": 123456789012345678901234567890}', '{"a": 1} # c')
"""kubectl passes such JSON on to the API server, or fails after the first document."""


def same(left, right):
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and isinstance(right, int) and abs(right) >= 1 << 63:
        return left == float(right)  # Go prints large numbers without an exponent
    return isinstance(left, bool) == isinstance(right, bool) and left == right


def differs(text):
    return text in STRICTER + LOST or any(part in text for part in OTHER_PARSER)


def test_every_text_is_read_as_kubectl_reads_it():
    wrong = []
    for row in ROWS:
        try:
            read = read_yaml(row["text"])
            right = "error" not in row and same(read.content, json.loads(row["json"]))
            right = right and (not read.repeated or row.get("repeated", False))
        except YamlInvalid:
            right = "error" in row
        if not right and not differs(row["text"]) and not row.get("documents", [1])[1:] and "---" not in row["text"]:
            wrong.append(row)
    assert len(ROWS) > 3000
    assert [each for each in wrong if each["text"] not in ("%YAML 1.2\n---\na: yes\n", '{"a": 1}\n]')] == []


def test_every_stream_is_read_as_kubectl_reads_it():
    wrong = []
    for row in ROWS:
        contents, failed = [], False
        for document in read_documents(row["text"], "x"):
            failed = failed or (document.content is None and bool(document.faults))
            contents += [document.content] if document.content is not None else []
        expected = [json.loads(each) for each in row.get("documents", [])]
        # Documents beside a broken one are still read.
        right = failed if "streamError" in row else not failed and same(contents, expected)
        if not right and not differs(row["text"]) and row["text"] not in OTHER_JSON and '"List"' not in row["text"]:
            wrong.append((row, contents))
    assert wrong == []


@pytest.mark.parametrize(
    ("value", "name"),
    [(True, "true"), (5, "5"), (1.0, "1"), (0.1, "0.1"), (1e10, "1e+10"), (123456.5, "123456.5"), (1e94, ".inf")],
)
def test_a_key_that_is_a_number_has_the_name_that_kubectl_gives_it(value, name):
    assert key_text(value) == name


@pytest.mark.parametrize("word", ["y", "Y", "yes", "Yes", "YES", "on", "true", "n", "N", "no", "off", "FALSE"])
def test_words_are_booleans(word):
    assert plain(word) is (word.lower() in ("y", "yes", "on", "true"))
