"""Who somebody is and what they may do, by the word of the cluster's own API server."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class TokenIdentity:
    """What the API server says of whoever showed a token."""

    user: str = ""  # empty: nobody it knows
    lacks: tuple[str, ...] = ()  # what they would have to be allowed, such as `list pods`

    @property
    def known(self) -> bool:
        """Whether the token is somebody's."""
        return bool(self.user)


class Reviewer(Protocol):
    """Asks the API server."""

    async def review(self, token: str) -> TokenIdentity:
        """Who shows this token; an `ApiError` if nobody can be asked."""
        ...
