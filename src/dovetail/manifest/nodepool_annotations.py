"""Merges the annotations of a NodePool that spell fields (`model.annotated_fields`) into the document.

An annotation counts where its field is absent, or has the value that Karpenter's CRDs fill in. An annotation that
cannot be read, or that differs from its field, is a fault: the NodePool then launches and disrupts nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from dovetail.model.annotated_fields import (
    ANNOTATED_FIELDS,
    FIELD_BY_ANNOTATION,
    AnnotatedField,
    annotation_path,
    value_at,
)
from dovetail.model.kube_object import Fault
from dovetail.model.nodepool import NodePoolSpec

Plain = Mapping[str, Any]
Convert = Callable[[Any, Any], Any]
_UNFIT = (ValueError, TypeError, ArithmeticError, RecursionError)


def has_field_annotations(annotations: object) -> bool:
    """Whether any annotation spells a field."""
    return isinstance(annotations, Mapping) and not FIELD_BY_ANNOTATION.keys().isdisjoint(annotations)


def spelled_fields(document: Plain) -> Iterator[tuple[AnnotatedField, Any, Fault | None]]:
    """Yield each field that an annotation spells, with its value, or with a fault if the text cannot be read."""
    annotations = value_at(document, "metadata.annotations")
    for name, field in FIELD_BY_ANNOTATION.items():
        text = annotations.get(name) if isinstance(annotations, Mapping) else None
        if not isinstance(text, str):
            continue
        try:
            yield field, _read(field, text), None
        except (ValueError, RecursionError) as error:
            remedy = f"write it like {name}: '{field.example}'"
            yield field, None, Fault(annotation_path(name), f"cannot be read as {field.spells}: {error}", text, remedy)


def _read(field: AnnotatedField, text: str) -> Any:
    if not field.is_json:
        return text
    value = msgspec.json.decode(text)
    if type(value) is not (dict if field.example.startswith("{") else list):
        raise ValueError(f"expected a JSON {'object' if field.example.startswith('{') else 'array'}")
    return value


def merge_annotations(document: Plain, convert: Convert) -> tuple[Plain, tuple[Fault, ...]]:
    """The document with the fields that its annotations spell, and the faults of these annotations."""
    merged, faults = document, []
    for field, value, fault in spelled_fields(document):
        written = _written(document, field, convert)
        if fault is not None:
            faults.append(fault)
        elif written is None:
            merged = with_value(merged, field.spells, value)
        elif not _equal(field, value, value_at(document, written), convert):
            problem = f"differs from {written}, which is set too"
            faults.append(Fault(annotation_path(field.annotation), problem, value, "keep one of them"))
    return merged, tuple(faults)


def _written(document: Plain, field: AnnotatedField, convert: Convert) -> str | None:
    """The path of the field, in either spelling, if the document sets it."""
    same = (each.path for each in ANNOTATED_FIELDS if each.annotation == field.annotation and "[]" not in each.path)
    for path in (field.spells, *same):
        value = value_at(document, path)
        if value is not None and (field.default is None or not _equal(field, value, field.default, convert)):
            return path
    return None


def _equal(field: AnnotatedField, ours: Any, theirs: Any, convert: Convert) -> bool:
    """Whether two values of a field mean the same, such as 2h and 120m."""
    try:
        first, second = (convert(with_value({}, field.spells, each)["spec"], NodePoolSpec) for each in (ours, theirs))
    except _UNFIT:
        return bool(ours == theirs)
    return bool(first == second)


def with_value(document: Plain, path: str, value: Any) -> Plain:
    """A copy of the document with one field set; a parent that is not a mapping is left as it is."""
    name, _, rest = path.partition(".")
    if not rest:
        return {**document, name: value}
    inner = document.get(name)
    if inner is not None and not isinstance(inner, Mapping):
        return document
    return {**document, name: with_value(inner or {}, rest, value)}


def locate_fault(fault: Fault, document: Plain) -> Fault:
    """The fault with the path of the annotation, if that is where the field comes from."""
    annotations = value_at(document, "metadata.annotations")
    for name, field in FIELD_BY_ANNOTATION.items():
        inner = fault.path.removeprefix(field.spells)
        inside = inner != fault.path and inner[:1] in ("", ".", "[")
        if inside and isinstance(annotations, Mapping) and isinstance(annotations.get(name), str):
            return fault._replace(path=f"{annotation_path(name)}{inner}")
    return fault
