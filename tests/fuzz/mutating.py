"""Seeded mutations of valid inputs: of their bytes, and of the structure of documents.

Everything comes from one `random.Random`, so a case is known by its seed and number alone. A document is mutated as
plain values and written as JSON or YAML; pieces of YAML that plain values cannot express (tags, aliases, merge keys)
are written in place of markers.
"""

import copy
import gzip
import json
from random import Random

import yaml

TEXTS = (
    "",
    " ",
    "0",
    "-1",
    "Never",
    "true",
    "null",
    "10%",
    "101%",
    "-5%",
    "1e9",
    "1e999999999",
    "9" * 25,
    "9" * 400,
    "9" * 5000,
    "1" * 300 + "%",
    "9" * 30 + "h",
    "99999999h",
    "-1h",
    "1h" * 300,
    "500m",
    "1Ei",
    "9" * 300 + "Ei",
    "1e400",
    "1e-400",
    ".5.",
    "0.000000001n",
    "* * * * *",
    "@daily",
    "0 0 31 2 *",
    "*/0 * * * *",
    "a/b/c",
    "/",
    "..",
    "../../etc/passwd",
    "\x00",
    "\x1b[2J",
    "\x1b]0;x\x07",
    "\x9b31m",
    "\u202egnp.exe",
    "\u200b",
    "\ufeff",
    "\r",
    "\n\n",
    "\t",
    "\u2028",
    "\U0001f4a9",
    "e\u0301" * 50,
    "x" * 300,
    "x" * 70_000,
    "{{ .Values.x }}",
    "${X}",
    "%s%n",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "10000-01-01T00:00:00Z",
    "2026-01-05T12:00:00+23:59",
    "2026-13-45T99:00:00Z",
    "2026-01-05",
    "-2026-01-05T00:00:00Z",
    "i-0",
    "kwok://x",
    "aws:///z/i-1",
    "karpenter.sh/v1",
    "NodePool",
    "default",
    "In",
    "Gt",
    "Exists",
    "on-demand",
    "NaN",
    "Infinity",
    "[",
    "{",
    "<<",
    "&a",
    "*a",
    "!!str",
)
VALUES = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63,
    -(2**63) - 1,
    2**64,
    10**30,
    10**308,
    0.5,
    -0.0,
    1e308,
    1e-320,
    [],
    {},
    [None],
    [[]],
    {"": ""},
    {"a": None},
    {"kind": {"a": 1}},
    [{"a": []}],
    {"metadata": None},
    {"metadata": []},
    {"spec": 5},
    ["x"] * 3,
)
RAW = (
    "!!timestamp 2020-01-01",
    "!!timestamp x",
    "!!binary aGk=",
    "!!set {a}",
    "!!omap [a: 1]",
    "!!python/object:os.system x",
    "!x y",
    ".nan",
    ".inf",
    "-.inf",
    "1e999",
    "0x" + "f" * 400,
    "9" * 5000,
    "*nobody",
    "&a [*a]",
    "{<<: 5}",
    "{<<: [{a: 1}, {a: 2}]}",
    "~",
    "{a: 1, a: 2}",
    "? [x]",
    "|\n  text",
    "2020-01-01",
    "12:30:45",
    "0o17",
    "017",
    "1_000",
    "yes",
    "'",
    '"',
    "[" * 200,
    "%",
    "{? a, ? b}",
    "!!int x",
    "!!float x",
    "!!bool x",
    "!!null x",
    "! x",
    "!<tag:x> y",
)
CHUNKS = (
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\xed\xa0\x80",
    b"\x1b[2J",
    b"\x9b",
    b"\r",
    b"\r\n",
    b"\n",
    b"\t",
    b"---\n",
    b"...\n",
    b"[" * 500,
    b"{" * 500,
    b"]",
    b"}",
    b'"',
    b"'",
    b",",
    b":",
    b": ",
    b"- ",
    b"&a ",
    b"*a",
    b"!!binary ",
    b"<<: ",
    b"9" * 5000,
    b"1e999",
    b"NaN",
    b"\\ud800",
    b"\\u0000",
    b"%",
    b"#",
    b"|",
    b">",
    b"\xc2\x85",
    b"\xe2\x80\xae",
    b"=",
    b"=" * 300,
    b";",
    b"x" * 10_000,
    b"(" * 300,
)
MOST = 1 << 20  # bytes of a mutated input


def mutated_bytes(random: Random, content: bytes, others: tuple[bytes, ...]) -> bytes:
    """The content with one to four changes of its bytes."""
    for _ in range(random.choice((1, 1, 2, 4))):
        content = random.choice(_BYTE_CHANGES)(random, content, others)[:MOST]
    return content


def _span(random: Random, content: bytes) -> tuple[int, int]:
    start = random.randint(0, len(content))
    return start, min(len(content), start + random.choice((1, 1, 2, 8, 64, 512)))


def _flip(random, content, _others):
    if not content:
        return content
    at = random.randrange(len(content))
    return content[:at] + bytes([content[at] ^ (1 << random.randrange(8))]) + content[at + 1 :]


def _insert(random, content, _others):
    at = random.randint(0, len(content))
    return content[:at] + random.choice(CHUNKS) + content[at:]


def _replace(random, content, _others):
    start, end = _span(random, content)
    return content[:start] + random.choice(CHUNKS) + content[end:]


def _delete(random, content, _others):
    start, end = _span(random, content)
    return content[:start] + content[end:]


def _repeat(random, content, _others):
    start, end = _span(random, content)
    return content[:end] + content[start:end] * random.choice((1, 2, 30)) + content[end:]


def _cut(random, content, _others):
    return content[: random.randint(0, len(content))]


def _splice(random, content, others):
    other = random.choice(others) if others else b""
    return content[: random.randint(0, len(content))] + other[random.randint(0, len(other)) :]


def _put_text(random, content, _others):
    """One word of a text in place of another one."""
    words = content.split(b" ")
    words[random.randrange(len(words))] = random.choice(TEXTS).encode("utf-8", "surrogatepass")
    return b" ".join(words)


def _recode(random, content, _others):
    coding = random.choice(("utf-16", "utf-8-sig", "utf-32", "utf-16-le", "cp037"))
    return content.decode("utf-8", "replace").encode(coding, "replace")


def _pack(random, content, _others):
    packed = gzip.compress(content, mtime=0)
    return packed if random.random() < 0.5 else packed[: random.randint(0, len(packed))]


_BYTE_CHANGES = (
    _flip,
    _flip,
    _insert,
    _insert,
    _replace,
    _delete,
    _repeat,
    _cut,
    _splice,
    _put_text,
    _put_text,
    _recode,
    _pack,
)


def mutated_document(random: Random, document: object, *, form: str) -> bytes:
    """A document with one to four changes of its structure, written as `json`, `yaml` or either."""
    document, raw = copy.deepcopy(document), []
    for _ in range(random.choice((1, 1, 2, 4))):
        document = _changed(random, document, raw)
    form = random.choice(("json", "yaml")) if form == "any" else form
    if form == "json":
        return json.dumps(document, ensure_ascii=random.random() < 0.5).encode("utf-8", "surrogatepass")
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=random.random() < 0.5, width=1000)
    for number, piece in enumerate(raw):
        text = text.replace(f"RAW{number}WAR", piece)
    return text.encode("utf-8", "surrogatepass")


def _changed(random: Random, document: object, raw: list) -> object:
    places = [place for place in _places(document) if place]
    if not places:
        return _junk(random, raw)
    *path, last = random.choice(places)
    holder = document
    for key in path:
        holder = holder[key]
    change = random.random()
    if change < 0.15:
        del holder[last]
    elif change < 0.6:
        holder[last] = _junk(random, raw)
    elif change < 0.7:
        holder[last] = {str(random.choice(TEXTS)): holder[last]} if random.random() < 0.5 else [holder[last]]
    elif change < 0.8:
        _, *other = random.choice(places), *random.choice(places)
        holder[last] = copy.deepcopy(_at(document, other))
    elif isinstance(holder, dict):
        holder[random.choice(TEXTS)[:300]] = holder.pop(last) if random.random() < 0.3 else _junk(random, raw)
    else:
        holder.extend(copy.deepcopy(holder[:10]) * random.choice((1, 3)))
    return document


def _junk(random: Random, raw: list) -> object:
    kind = random.random()
    if kind < 0.45:
        return random.choice(TEXTS)
    if kind < 0.8:
        return copy.deepcopy(random.choice(VALUES))
    if kind < 0.85:
        return _nested(random.choice((5, 50, 150)))
    raw.append(random.choice(RAW))
    return f"RAW{len(raw) - 1}WAR"


def _nested(depth: int) -> object:
    value: object = "x"
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


def _at(document, path):
    for key in path:
        document = document[key]
    return document


def _places(value, path=()):
    yield path
    if len(path) < 40:
        inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, each in inner:
            yield from _places(each, (*path, key))
