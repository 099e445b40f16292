"""Selector terms as EC2 filters: the terms are alternatives, what stands in one term must hold together.

Terms by id, and terms by name, are gathered into one request each; every term by tags is a request of its own.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from dovetail.cloud.aws.clients import AwsClients

Filter = dict[str, Any]
Request = dict[str, Any]


def named(name: str, *values: str) -> Filter:
    """One filter."""
    return {"Name": name, "Values": list(values)}


def tagged(tags: Mapping[str, str]) -> list[Filter]:
    """Filters for all of these tags; `*` stands for any value."""
    return [
        named("tag-key", key) if value == "*" else named(f"tag:{key}", value) for key, value in sorted(tags.items())
    ]


def requests(terms: Iterable[Any], by_field: Mapping[str, str]) -> list[Request]:
    """The requests that find what the terms select. `by_field`: the filter for each field that stands alone."""
    gathered: dict[str, list[str]] = {}
    alone: list[Request] = []
    for term in terms:
        field = next((each for each in by_field if getattr(term, each)), None)
        if field is not None:
            gathered.setdefault(field, []).append(getattr(term, field))
        else:
            alone.append({"Filters": tagged(term.tags)})
    merged = [{"Filters": [named(by_field[field], *sorted(set(values)))]} for field, values in gathered.items()]
    return [*merged, *alone]


def key_of(terms: object) -> bytes:
    """Terms as something to remember answers by."""
    return msgspec.json.encode(terms, order="deterministic")


async def find(aws: AwsClients, operation: str, field: str, asked: Iterable[Request]) -> list[Mapping[str, Any]]:
    """What all the requests find together; what several find is in it several times."""
    found: list[Mapping[str, Any]] = []
    for request in asked:
        found.extend(await aws.collect("ec2", operation, field, **request))
    return found
