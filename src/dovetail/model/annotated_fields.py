"""The NodePool fields that Karpenter's CRDs do not have, and the annotations that spell them there.

On Karpenter's CRDs the API server drops these fields, but keeps annotations. `ANNOTATED_FIELDS` is the only table of
fields and annotations: decoding, validation, notices and documentation derive from it. An annotation counts where its
field is absent; decoding merges it into the NodePool (`manifest.nodepool_annotations`), so nothing else knows about it.

`dropped_fields` names the fields that a NodePool of the cluster has lost: kubectl records the applied manifest in an
annotation. `missing_in` compares the table with an installed CRD, `written_fields` with a manifest.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from dovetail.model.kube_object import Fault
from dovetail.model.nodepool import NodePool

Plain = Mapping[str, Any]
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
INSTALL = "install Dovetail's CRDs (dovetail crds | kubectl apply --server-side -f -)"


@dataclass(frozen=True, slots=True)
class AnnotatedField:
    """A field and its annotation. `[]` in a path stands for every item of a list."""

    path: str
    annotation: str
    example: str  # a value of the annotation
    target: str = ""  # the field that the annotation spells, if that is not `path`
    default: object = None  # a value that Karpenter's CRDs fill in, which counts as absent

    @property
    def spells(self) -> str:
        """The path of the field that the annotation spells."""
        return self.target or self.path

    @property
    def is_json(self) -> bool:
        """Whether the annotation is JSON, not plain text."""
        return self.example[:1] in "{["


_CONTROLS = '{"Drift": {"disruptAfter": "24h", "budgets": [{"nodes": "5"}]}}'
ANNOTATED_FIELDS = (
    AnnotatedField("spec.disruption.consolidationGracePeriod", "dovetail.sh/consolidation-grace-period", "2h"),
    AnnotatedField("spec.disruption.minSavings", "dovetail.sh/min-savings", "60%"),
    AnnotatedField("spec.disruption.expireAfter", "dovetail.sh/soft-expire-after", "336h"),
    AnnotatedField("spec.disruption.actionControls", "dovetail.sh/action-controls", _CONTROLS),
    AnnotatedField(
        "spec.disruption.genericPerActionControls",
        "dovetail.sh/action-controls",
        _CONTROLS,
        target="spec.disruption.actionControls",
    ),
    AnnotatedField(
        "spec.disruption.budgets[].action",
        "dovetail.sh/budgets",
        '[{"nodes": "20%"}, {"nodes": "1", "action": "Drift"}]',
        target="spec.disruption.budgets",
        default=[{"nodes": "10%"}],
    ),
    AnnotatedField("spec.repair", "dovetail.sh/repair", '{"defaultTolerationDuration": "15m"}'),
)
FIELD_BY_ANNOTATION = {field.annotation: field for field in reversed(ANNOTATED_FIELDS)}


def annotation_path(annotation: str) -> str:
    """The path of an annotation in faults."""
    return f"metadata.annotations[{annotation}]"


def value_at(document: object, path: str) -> Any:
    """The value of a field of a plain document, or None."""
    for name in path.split("."):
        document = document.get(name) if isinstance(document, Mapping) else None
    return document


def annotation_for(path: str, document: Plain) -> str:
    """The annotation that spells a field of a NodePool manifest, with its value; empty if there is none."""
    plain = re.sub(r"\[\d+\]", "[]", path)
    field = next((each for each in ANNOTATED_FIELDS if each.path == plain), None)
    return _annotation(field, _value(document, field)) if field is not None else ""


def _annotation(field: AnnotatedField, value: object) -> str:
    text = json.dumps(value, default=str) if field.is_json else str(value)
    return f"{field.annotation}: '{text}'"


def dropped_fields(pool: NodePool) -> tuple[Fault, ...]:
    """The fields that the last applied manifest of a NodePool has, but the NodePool lacks."""
    applied = _last_applied(pool.metadata.annotations.get(LAST_APPLIED, ""))
    if applied is None:
        return ()
    present = {"spec": msgspec.to_builtins(pool.spec, enc_hook=str)}
    return tuple(
        Fault(
            field.path,
            "is in the manifest applied last, but not in the NodePool: Karpenter's CRDs drop it",
            None,
            f"write the annotation {_annotation(field, wanted)}, or {INSTALL}",
        )
        for field in ANNOTATED_FIELDS
        if (wanted := _value(applied, field)) is not None and _value(present, field) is None
    )


def written_fields(document: object) -> tuple[str, ...]:
    """The fields of a v1 NodePool manifest that Karpenter's CRDs do not have."""
    is_pool = [value_at(document, name) for name in ("apiVersion", "kind")] == ["karpenter.sh/v1", "NodePool"]
    return tuple(each.path for each in ANNOTATED_FIELDS if is_pool and _value(document, each) is not None)


def missing_in(schema: Plain) -> tuple[AnnotatedField, ...]:
    """The fields that the OpenAPI schema of an installed NodePool CRD does not have."""
    return tuple(field for field in ANNOTATED_FIELDS if not _has_field(schema, field.path.replace("[]", ".items")))


def _has_field(schema: object, path: str) -> bool:
    for name in path.split("."):
        if not isinstance(schema, Mapping):
            return False
        schema = schema.get("items") if name == "items" else value_at(schema, f"properties.{name}")
    return schema is not None


def _last_applied(text: str) -> object:
    try:
        return msgspec.json.decode(text) if text else None
    except (ValueError, RecursionError):
        return None


def _value(document: object, field: AnnotatedField) -> Any:
    """The value that the annotation of a field would spell, if the document has the field; else None."""
    place, items, inner = field.path.partition("[].")
    value = value_at(document, place)
    if not items:
        return value
    entries = value if isinstance(value, list | tuple) else ()
    return value if any(isinstance(each, Mapping) and each.get(inner) is not None for each in entries) else None
