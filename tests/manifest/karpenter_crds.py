"""What Karpenter's own CRDs say about every field, as plain facts that can be compared without Go.

`python -m manifest.karpenter_crds DIRECTORY...` (in tests/, with the directories of its CRDs) writes `FACTS` anew from
the CRDs of Karpenter v1.14.1: those of its AWS provider (`pkg/apis/crds`), and those of core's kwok provider
(`kwok/charts/crds` and `kwok/apis/crds`). The two sets of NodePool and NodeClaim differ only in the rules about label
domains; the facts have the rules of both.
"""

import json
import sys
from pathlib import Path
from typing import Any

import yaml

FACTS = Path(__file__).parents[1] / "data" / "karpenter_crds.json"
KINDS = ("NodePool", "NodeClaim", "EC2NodeClass", "KWOKNodeClass")
_RULES = "x-kubernetes-validations"
_PARTS = ("properties", "items", "additionalProperties", "description", "anyOf")


def facts_of(schema: dict[str, Any], path: str = "") -> dict[str, dict[str, Any]]:
    """The constraints of a schema by path, such as `spec.template.spec.taints[].key` and `spec.limits{}`."""
    facts = {name: value for name, value in schema.items() if name not in _PARTS}
    if facts.pop("x-kubernetes-int-or-string", False):
        facts["type"] = "integer or string"
    for name in ("required", "enum"):
        if name in facts:
            facts[name] = sorted(facts[name])
    if _RULES in facts:
        facts[_RULES] = {each["message"]: each["rule"] for each in facts[_RULES]}
    found = {path: facts}
    for name, inner in schema.get("properties", {}).items():
        found.update(facts_of(inner, f"{path}.{name}" if path else name))
    for name, suffix in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(schema.get(name), dict):
            found.update(facts_of(schema[name], path + suffix))
    return found


def read_facts(directories: list[Path]) -> dict[str, dict[str, dict[str, Any]]]:
    """The facts of every kind; rules of the same path are put together."""
    facts: dict[str, dict[str, dict[str, Any]]] = {}
    for file in (file for directory in directories for file in sorted(directory.glob("*.yaml"))):
        crd = yaml.safe_load(file.read_text(encoding="utf-8"))
        kind, [version] = crd["spec"]["names"]["kind"], crd["spec"]["versions"]
        if kind not in KINDS:
            continue
        for path, found in facts_of(version["schema"]["openAPIV3Schema"]).items():
            known = facts.setdefault(kind, {}).setdefault(path, found)
            assert {**known, _RULES: None} == {**found, _RULES: None}, (file, path)
            if _RULES in found:
                known[_RULES] = {**known.get(_RULES, {}), **found[_RULES]}
    return facts


if __name__ == "__main__":
    FACTS.write_text(json.dumps(read_facts([Path(each) for each in sys.argv[1:]]), indent=1, sort_keys=True) + "\n")
