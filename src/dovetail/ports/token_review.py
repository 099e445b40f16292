"""Authentication and authorization of a bearer token by the Kubernetes API server."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class TokenIdentity:
    """The user of a token, as the API server reports it."""

    user: str = ""  # empty if the token is not valid
    lacks: tuple[str, ...] = ()  # missing permissions, for example `list pods`

    @property
    def known(self) -> bool:
        """Whether the token is valid."""
        return bool(self.user)


class Reviewer(Protocol):
    """Reviews tokens at the API server."""

    async def review(self, token: str) -> TokenIdentity:
        """Return the user of the token and the missing permissions; raises `ApiError`."""
        ...
