"""Renders the findings of `dovetail validate` as a SARIF 2.1.0 log, which code scanning services display at the line.

A rule is a field of a kind, such as `NodePool/spec.disruption.budgets[].nodes`: it stays the same when the wording of a
problem changes, so a dismissed finding stays dismissed. Input that cannot be read is a notification of the tool.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_INDEX = re.compile(r"\[[^\]]*\]")


def sarif_log(
    documents: Iterable[Mapping[str, Any]], unreadable: Sequence[str], *, version: str, strict: bool
) -> dict[str, Any]:
    """The log of one run. `documents` are the documents of `validate -o json`; `strict` makes warnings errors."""
    results = [
        _result(document, finding, "error" if strict else level)
        for document in documents
        for level, finding in _findings(document)
    ]
    rules = {each["ruleId"]: _rule(each["ruleId"]) for each in results}
    order = {rule: at for at, rule in enumerate(rules)}
    notifications = [{"level": "error", "message": {"text": each}} for each in unreadable]
    run = {
        "tool": {"driver": {"name": "dovetail", "version": version, "rules": list(rules.values())}},
        "invocations": [{"executionSuccessful": not unreadable, "toolExecutionNotifications": notifications}],
        "columnKind": "unicodeCodePoints",
        "results": [{**each, "ruleIndex": order[each["ruleId"]]} for each in results],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _findings(document: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each finding with its level."""
    for name, level in (("faults", "error"), ("warnings", "warning")):
        for finding in document[name]:
            yield level, finding


def _result(document: Mapping[str, Any], finding: Mapping[str, Any], level: str) -> dict[str, Any]:
    path = "" if finding["path"] == "$" else finding["path"]
    name = " ".join(filter(None, (document["kind"], document["name"])))
    text = ": ".join(filter(None, (name, path, finding["problem"])))
    remedy = f" Fix: {finding['remedy']}." if finding["remedy"] else ""
    return {
        "ruleId": f"{document['kind'] or 'document'}/{_INDEX.sub('[]', path) or 'document'}",
        "level": level,
        "message": {"text": f"{text}.{remedy}"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": _uri(document["source"])},
                    "region": {"startLine": finding["line"]},
                }
            }
        ],
    }


def _rule(rule: str) -> dict[str, Any]:
    kind, _, path = rule.partition("/")
    text = f"A {kind} that is not valid as a whole." if path == "document" else f"The field {path} of a {kind}."
    return {"id": rule, "shortDescription": {"text": text}}


def _uri(source: str) -> str:
    """A file as a URI: relative as it was given, so that it is found in the repository."""
    if source == "<stdin>":
        return "stdin"
    path = Path(source)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())
