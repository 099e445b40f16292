"""The interface of traces: spans with a name, a beginning, an end and attributes.

A decision (a command, a launch, a removal) has one trace, whose ids are derived from the id of the decision. So every
process that works on it adds to the same trace, also after a restart. `SpanRef` names a place in it: the root span, or
a part below it. A root span is recorded when the decision ends, its children while it is executed. A pass is a trace of
its own, with a link to each decision that it made.

Attributes have the names of fields of log lines; a mapping becomes one attribute for each key. No method waits or, in
production, raises.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

Attribute = str | bool | int | float | Sequence[str] | Mapping[str, int]


@dataclass(frozen=True, slots=True)
class SpanRef:
    """A span in the trace of a decision: the root, or one of its parts."""

    decision: str
    part: str = ""  # a path below the root, such as `launch 3f9c/register node`; empty: the root

    @property
    def parent(self) -> "SpanRef":
        """The span above this part."""
        return SpanRef(self.decision, self.part.rpartition("/")[0])

    def step(self, name: str) -> "SpanRef":
        """A span below this one."""
        return SpanRef(self.decision, f"{self.part}/{name}")


class TraceSpan(Protocol):
    """A span that has not ended."""

    def set(self, **attributes: Attribute) -> None:
        """Set attributes."""
        ...

    def link(self, ref: SpanRef) -> None:
        """Link the span to a decision that it led to."""
        ...

    def fail(self, why: str) -> None:
        """Mark the span as failed."""
        ...


class Tracer(Protocol):
    """Records spans."""

    @property
    def enabled(self) -> bool:
        """Whether spans are recorded. If not, callers skip the work for their attributes."""
        ...

    def span(
        self, name: str, under: SpanRef | None = None, /, **attributes: Attribute
    ) -> AbstractContextManager[TraceSpan]:
        """Record the block as a span below `under`, else below the span around it, else as the root of a new trace.

        An exception marks the span as failed and is passed on.
        """
        ...

    def record(
        self, name: str, period: tuple[datetime, datetime], ref: SpanRef | None = None, /, **attributes: Attribute
    ) -> None:
        """Record a span that has ended: that of `ref`, else one below the current span. `error` marks it as failed."""
        ...

    def log_fields(self, decision: str, /) -> Mapping[str, str]:
        """Return the trace ID of a decision as fields of a log line; empty if its spans are not recorded."""
        ...


class NoSpan:
    """Discards everything."""

    def set(self, **attributes: Attribute) -> None:
        """Discard it."""

    def link(self, ref: SpanRef) -> None:
        """Discard it."""

    def fail(self, why: str) -> None:
        """Discard it."""


class _NoBlock:
    """A context manager that does nothing; one instance serves all blocks."""

    def __enter__(self) -> NoSpan:
        return _NO_SPAN

    def __exit__(self, *_error: object) -> None:
        """Pass exceptions on."""


_NO_SPAN, _NO_BLOCK = NoSpan(), _NoBlock()


class NoTracer:
    """Records nothing."""

    enabled = False

    def span(
        self, _name: str, _under: SpanRef | None = None, /, **_attributes: Attribute
    ) -> AbstractContextManager[TraceSpan]:
        """Return a block that does nothing."""
        return _NO_BLOCK

    def record(
        self, name: str, period: tuple[datetime, datetime], ref: SpanRef | None = None, /, **attributes: Attribute
    ) -> None:
        """Discard it."""

    def log_fields(self, _decision: str, /) -> Mapping[str, str]:
        """Return nothing."""
        return {}
