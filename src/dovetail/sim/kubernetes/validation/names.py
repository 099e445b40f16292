"""Names and keys as the API server reads them, and the fault for one that it does not take.

The paths of faults are the server's own, its quirks included: a bad label is reported at `metadata.labels`, a bad taint
at `metadata.taints`.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache

from dovetail.manifest.patterns import DNS_SUBDOMAIN, LABEL_VALUE, matches
from dovetail.manifest.semantics import is_qualified_name
from dovetail.model.kube_object import Fault

_DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_LONGEST_LABEL = 63
_LONGEST_SUBDOMAIN = 253


@lru_cache(maxsize=1 << 12)
def is_subdomain(text: str) -> bool:
    """Whether it is a DNS-1123 subdomain."""
    return len(text) <= _LONGEST_SUBDOMAIN and matches(DNS_SUBDOMAIN, text)


@lru_cache(maxsize=1 << 12)
def is_label(text: str) -> bool:
    """Whether it is a DNS-1123 label."""
    return len(text) <= _LONGEST_LABEL and matches(_DNS_LABEL, text)


@lru_cache(maxsize=1 << 12)
def is_key(text: str) -> bool:
    """Whether it can be the key of a label or taint, or the name of a resource."""
    return is_qualified_name(text)


@lru_cache(maxsize=1 << 12)
def is_value(text: str) -> bool:
    """Whether it can be the value of a label."""
    return len(text) <= _LONGEST_LABEL and matches(LABEL_VALUE, text)


def refuse(path: str, problem: str, value: object = None) -> Iterator[Fault]:
    """One fault."""
    yield Fault(path, problem, value)


def label_faults(labels: Mapping[str, str] | None, path: str) -> Iterator[Fault]:
    """Bad keys and values of labels, all at the path of the map."""
    for key, value in (labels or {}).items():
        if not is_key(key):
            yield Fault(path, "is not a label key: optional domain and '/', then at most 63 characters", key)
        if not is_value(value or ""):
            yield Fault(path, "is not a label value: at most 63 letters, digits, '-', '_' and '.'", value)


def choice_faults(value: str | None, choices: frozenset[str], path: str) -> Iterator[Fault]:
    """A value that is written and is none of the choices."""
    if value is not None and value not in choices:
        yield Fault(path, f"is not one of {', '.join(sorted(choices))}", value)
