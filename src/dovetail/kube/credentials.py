"""Credentials for the API server, renewed when they expire or are rejected.

A `CredentialSource` fetches a credential. `Credentials` holds it until it expires or the server answers 401, and runs
at most one fetch at a time. Files are read again every minute, because the kubelet rotates service account tokens.

`ExecCredentialSource` runs an exec plugin that prints an ExecCredential, following `client.authentication.k8s.io` v1
and v1beta1: the plugin gets `KUBERNETES_EXEC_INFO`, and its credential is valid until `expirationTimestamp`. The plugin
never gets a terminal.
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
    """Headers and client certificate that authenticate a request."""

    headers: Headers = ()
    certificate: ClientCertificate | None = None
    expires_at: datetime | None = None

    def same_as(self, other: "Credential") -> bool:
        """Whether both authenticate in the same way."""
        return self.headers == other.headers and self.certificate == other.certificate


class CredentialSource(Protocol):
    """A source of credentials."""

    async def fetch(self, now: datetime) -> Credential:
        """Fetch a new credential. Raises `Denied`."""
        ...


def bearer(token: str) -> Headers:
    """The header for a bearer token."""
    return (("Authorization", f"Bearer {token.strip()}"),)


def basic(username: str, password: str) -> Headers:
    """The header for a user name and password."""
    return (("Authorization", "Basic " + b64encode(f"{username}:{password}".encode()).decode("ascii")),)


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticCredentialSource:
    """Fixed headers, a token from a file, and a client certificate: any combination."""

    headers: Headers = ()
    token_file: Path | None = None
    certificate: Pem | None = None
    key: Pem | None = None

    async def fetch(self, now: datetime) -> Credential:
        """Read the configured files."""
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
    """Holds the current credential.

    All callers that wait share one fetch. A caller whose deadline passes does not cancel it, so that a slow plugin can
    still finish.
    """

    def __init__(self, source: CredentialSource, clock: Clock) -> None:
        self._source = source
        self._clock = clock
        self._credential: Credential | None = None
        self._fetching: asyncio.Task[Credential] | None = None

    async def aclose(self) -> None:
        """Cancel a running fetch."""
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.wait([self._fetching])

    async def current(self) -> Credential:
        """The current credential. If renewal fails, the expired one: the server may still accept it."""
        credential = self._credential
        if credential is not None and not self._expired(credential):
            return credential
        try:
            return await self._fetch()
        except Denied:
            if credential is None:
                raise
            return credential

    async def renewed(self, rejected: Credential) -> Credential:
        """The replacement of a credential that the server rejected; it may be equal."""
        if self._credential is not None and self._credential is not rejected:
            return self._credential
        return await self._fetch()

    async def _fetch(self) -> Credential:
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._source.fetch(self._clock.now()), name="credentials")
            self._fetching.add_done_callback(self._store)
        return await asyncio.shield(self._fetching)

    def _store(self, done: asyncio.Task[Credential]) -> None:
        self._fetching = None
        if not done.cancelled() and done.exception() is None:
            self._credential = done.result()

    def _expired(self, credential: Credential) -> bool:
        return credential.expires_at is not None and self._clock.now() >= credential.expires_at


GROUP = "client.authentication.k8s.io"
VERSIONS = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
TIMEOUT = timedelta(seconds=60)
_MAX_STDERR = 500  # characters of the plugin's stderr in an error


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _Status | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecCredentialSource:
    """An exec plugin: its command, arguments and environment."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    api_version: str = VERSIONS[0]
    install_hint: str = ""
    cluster: Endpoint | None = None  # passed to the plugin if `provideClusterInfo` is set
    cluster_config: Any = None
    headers: Headers = ()
    timeout: timedelta = TIMEOUT

    async def fetch(self, now: datetime) -> Credential:  # noqa: ARG002 - the plugin returns the expiry
        """Run the command and parse its output."""
        status = self._parse(await self._run())
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
            async with asyncio.timeout(self.timeout.total_seconds()):
                out, stderr = await process.communicate()
        except TimeoutError as error:
            remedy = "run it by hand to see what it waits for; it cannot prompt for input here"
            raise self._denied(f"did not finish within {self.timeout.total_seconds():g} s; {remedy}") from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            output = stderr.decode("utf-8", "replace").strip()[-_MAX_STDERR:]
            failed = f"failed with exit code {process.returncode}{': ' + output if output else ''}"
            raise self._denied(f"{failed}; run it by hand, perhaps a new login is needed")
        return out

    def _parse(self, out: bytes) -> _Status:
        try:
            credential = msgspec.json.decode(out, type=_ExecCredential)
        except UNDECODABLE as error:
            raise self._denied(f"did not print an ExecCredential: {error}") from error
        if credential.kind != "ExecCredential" or credential.api_version != self.api_version:
            printed = f"{credential.api_version or 'no apiVersion'} {credential.kind or 'no kind'}"
            raise self._denied(f"printed {printed}, but the kubeconfig requires {self.api_version} ExecCredential")
        status = credential.status
        if status is None or not (status.token or status.client_certificate_data):
            raise self._denied("printed neither a token nor a client certificate")
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise self._denied("printed only one of clientCertificateData and clientKeyData")
        return status

    def _info(self) -> str:
        spec: dict[str, Any] = {"interactive": False}
        if self.cluster is not None:
            spec["cluster"] = self._cluster_info(self.cluster)
        info = {"apiVersion": self.api_version, "kind": "ExecCredential", "spec": spec}
        return msgspec.json.encode(info).decode()

    def _cluster_info(self, cluster: Endpoint) -> dict[str, Any]:
        fields = {
            "server": cluster.server,
            "tls-server-name": cluster.tls_server_name,
            "insecure-skip-tls-verify": cluster.insecure,
            "certificate-authority-data": b64encode(cluster.ca.read()).decode("ascii") if cluster.ca else "",
            "proxy-url": cluster.proxy,
            "config": self.cluster_config,
        }
        return {name: value for name, value in fields.items() if value}

    def _denied(self, problem: str) -> Denied:
        hint = f"\n{self.install_hint.strip()}" if self.install_hint else ""
        return Denied(f"exec plugin {self.command!r} {problem}{hint}")
