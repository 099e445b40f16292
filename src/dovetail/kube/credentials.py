"""Who we are to the API server, kept fresh.

A source fetches a credential; `Credentials` remembers it until it expires or the server refuses it, and lets only one
fetch run at a time. Files are read again every minute, because a kubelet replaces them long before they expire.

Credentials from an exec plugin: a command that prints an ExecCredential.

Keeps the contract of `client.authentication.k8s.io`, v1 and v1beta1: what the command gets in `KUBERNETES_EXEC_INFO`,
what it may answer, and that its answer holds until `expirationTimestamp`. It is never given a terminal.
"""

import asyncio
import os
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import msgspec

from dovetail.kube.endpoint import ClientCertificate, Endpoint, Pem
from dovetail.manifest.codec import UNDECODABLE
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


GROUP = "client.authentication.k8s.io"
VERSIONS = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
PATIENCE = timedelta(seconds=60)
_SHOWN = 500  # characters of the plugin's own words in an error


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _Answer(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _Status | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecCredentialSource:
    """The command, and what it is told."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    api_version: str = VERSIONS[0]
    install_hint: str = ""
    cluster: Endpoint | None = None  # told to the plugin when it asks for `provideClusterInfo`
    cluster_config: Any = None
    headers: Headers = ()
    patience: timedelta = PATIENCE

    async def fetch(self, now: datetime) -> Credential:  # noqa: ARG002 - the plugin says itself until when it holds
        """Run the command and read its answer."""
        status = self._read(await self._run())
        certificate = None
        if status.client_certificate_data:
            certificate = ClientCertificate(status.client_certificate_data.encode(), status.client_key_data.encode())
        headers = self.headers + (bearer(status.token) if status.token else ())
        return Credential(headers, certificate, status.expiration_timestamp)

    async def _run(self) -> bytes:
        environment = {**os.environ, **self.env, "KUBERNETES_EXEC_INFO": self._info()}
        try:
            process = await asyncio.create_subprocess_exec(
                self.command,
                *self.args,
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            remedy = "install it, or correct users[].user.exec.command in the kubeconfig"
            raise self._denied(f"cannot be run: {error.strerror or error}; {remedy}") from error
        try:
            async with asyncio.timeout(self.patience.total_seconds()):
                out, words = await process.communicate()
        except TimeoutError as error:
            remedy = "run it by hand to see what it waits for; it cannot ask anything here"
            raise self._denied(f"did not answer within {self.patience.total_seconds():g} s; {remedy}") from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            said = words.decode("utf-8", "replace").strip()[-_SHOWN:]
            failed = f"failed with exit code {process.returncode}{': ' + said if said else ''}"
            raise self._denied(f"{failed}; run it by hand, perhaps you have to log in again")
        return out

    def _read(self, out: bytes) -> _Status:
        try:
            answer = msgspec.json.decode(out, type=_Answer)
        except UNDECODABLE as error:
            raise self._denied(f"did not print an ExecCredential: {error}") from error
        if answer.kind != "ExecCredential" or answer.api_version != self.api_version:
            said = f"{answer.api_version or 'no apiVersion'} {answer.kind or 'no kind'}"
            raise self._denied(f"answered with {said}, but the kubeconfig asks for {self.api_version} ExecCredential")
        status = answer.status
        if status is None or not (status.token or status.client_certificate_data):
            raise self._denied("answered without a token and without a client certificate")
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise self._denied("answered with only one of clientCertificateData and clientKeyData")
        return status

    def _info(self) -> str:
        spec: dict[str, Any] = {"interactive": False}
        if self.cluster is not None:
            spec["cluster"] = self._cluster_info(self.cluster)
        info = {"apiVersion": self.api_version, "kind": "ExecCredential", "spec": spec}
        return msgspec.json.encode(info).decode()

    def _cluster_info(self, cluster: Endpoint) -> dict[str, Any]:
        told = {
            "server": cluster.server,
            "tls-server-name": cluster.tls_server_name,
            "insecure-skip-tls-verify": cluster.insecure,
            "certificate-authority-data": b64encode(cluster.ca.read()).decode("ascii") if cluster.ca else "",
            "proxy-url": cluster.proxy,
            "config": self.cluster_config,
        }
        return {name: value for name, value in told.items() if value}

    def _denied(self, problem: str) -> Denied:
        hint = f"\n{self.install_hint.strip()}" if self.install_hint else ""
        return Denied(f"exec plugin {self.command!r} {problem}{hint}")
