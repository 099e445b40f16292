"""Who we are to the API server, kept fresh.

A source fetches a credential; `Credentials` remembers it until it expires or the server refuses it, and lets only one
fetch run at a time. Files are read again every minute, because a kubelet replaces them long before they expire.
"""

import asyncio
from base64 import b64encode
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

from dovetail.kube.endpoint import ClientCertificate, Pem
from dovetail.manifest.input_file import InputUnreadable, read_text
from dovetail.ports.clock import Clock
from dovetail.ports.errors import Denied

Headers = tuple[tuple[str, str], ...]

REREAD_AFTER = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Credential:
    """What is shown to the API server with a call."""

    headers: Headers = ()
    certificate: ClientCertificate | None = None
    expires_at: datetime | None = None

    def same_as(self, other: "Credential") -> bool:
        """Whether showing the other one would make no difference."""
        return self.headers == other.headers and self.certificate == other.certificate


class CredentialSource(Protocol):
    """Where credentials come from."""

    async def fetch(self, now: datetime) -> Credential:
        """A fresh credential, or `Denied`."""
        ...


def bearer(token: str) -> Headers:
    """The header of a token."""
    return (("Authorization", f"Bearer {token.strip()}"),)


def basic(username: str, password: str) -> Headers:
    """The header of a user name and password."""
    return (("Authorization", "Basic " + b64encode(f"{username}:{password}".encode()).decode("ascii")),)


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticCredentialSource:
    """Headers as written, a token from a file, a certificate: whatever of these there is, together."""

    headers: Headers = ()
    token_file: Path | None = None
    certificate: Pem | None = None
    key: Pem | None = None

    async def fetch(self, now: datetime) -> Credential:
        """Read the files there are."""
        try:
            headers = self.headers + self._token()
            certificate = self._certificate()
        except InputUnreadable as error:
            raise Denied(f"credentials cannot be read: {error}") from error
        return Credential(headers, certificate, now + REREAD_AFTER if self._from_files else None)

    @property
    def _from_files(self) -> bool:
        return self.token_file is not None or any(pem is not None and pem.file for pem in (self.certificate, self.key))

    def _token(self) -> Headers:
        if self.token_file is None:
            return ()
        token = read_text(self.token_file).strip()
        if not token:
            raise Denied(f"the token file {self.token_file} is empty")
        return bearer(token)

    def _certificate(self) -> ClientCertificate | None:
        if self.certificate is None or self.key is None:
            return None
        return ClientCertificate(self.certificate.read(), self.key.read())


class Credentials:
    """The credential in use.

    A fetch belongs to everyone who waits for it: a caller who runs out of time does not end it, so that a slow plugin
    still gets to answer.
    """

    def __init__(self, source: CredentialSource, clock: Clock) -> None:
        self._source = source
        self._clock = clock
        self._held: Credential | None = None
        self._fetching: asyncio.Task[Credential] | None = None

    async def aclose(self) -> None:
        """End a fetch still under way."""
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.wait([self._fetching])

    async def current(self) -> Credential:
        """The credential to show now. If a new one cannot be had, the expired one may still do: the server decides."""
        held = self._held
        if held is not None and not self._expired(held):
            return held
        try:
            return await self._fetched()
        except Denied:
            if held is None:
                raise
            return held

    async def renewed(self, refused: Credential) -> Credential:
        """A credential in place of the one the server refused; possibly an equal one."""
        if self._held is not None and self._held is not refused:
            return self._held
        return await self._fetched()

    async def _fetched(self) -> Credential:
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._source.fetch(self._clock.now()), name="credentials")
            self._fetching.add_done_callback(self._keep)
        return await asyncio.shield(self._fetching)

    def _keep(self, done: asyncio.Task[Credential]) -> None:
        self._fetching = None
        if not done.cancelled() and done.exception() is None:
            self._held = done.result()

    def _expired(self, credential: Credential) -> bool:
        return credential.expires_at is not None and self._clock.now() >= credential.expires_at
