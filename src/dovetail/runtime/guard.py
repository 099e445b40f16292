"""Keeps a loop alive when one of its rounds fails: the world may fail, and one bad object must not stop the rest.

Assertions are not caught: they say that we are wrong, not the world.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from dovetail.ports.errors import WorldError

log = logging.getLogger(__name__)
R = TypeVar("R")


async def guarded(name: str, step: Callable[[], Awaitable[R]]) -> R | None:
    """What a step returns, or None if it failed; the failure is told."""
    try:
        return await step()
    except AssertionError:
        raise
    except WorldError as error:
        log.warning("round failed", extra={"controller": name, "error": str(error)})
    except Exception:
        log.exception("round broke", extra={"controller": name})
    return None
