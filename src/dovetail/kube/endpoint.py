"""The address of an API server, and the TLS context for it.

Builds an `ssl.SSLContext` from the cluster entry of a kubeconfig or from the CA of a service account. The client
certificate comes from `credentials`.
"""

import ssl
import tempfile
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from dovetail.manifest.input_file import read_bytes
from dovetail.ports.errors import ApiError

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class AccessFault(ApiError):
    """The API server cannot be accessed as configured; the message names the setting and the remedy."""


@dataclass(frozen=True, slots=True)
class Pem:
    """Certificates or a key: as data, or as a file, which may be replaced while the process runs."""

    data: bytes = b""
    file: Path | None = None

    def read(self) -> bytes:
        """The current content."""
        return self.data if self.file is None else read_bytes(self.file)


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A client certificate with its key."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """An API server and how to reach it."""

    server: str
    ca: Pem | None = None
    insecure: bool = False
    tls_server_name: str = ""
    proxy: str = ""

    @property
    def secure(self) -> bool:
        """Whether the connection uses TLS."""
        return self.server.startswith("https://")

    @property
    def ca_bundle(self) -> str:
        """The certificate authority, base64-encoded; empty if there is none."""
        return b64encode(self.ca.read()).decode() if self.ca is not None else ""

    @property
    def proxy_url(self) -> str | None:
        """The proxy: the configured one, else that of the environment; never one for a loopback address."""
        if self.proxy:
            return self.proxy
        parts = urlsplit(self.server)
        host = parts.hostname or ""
        if host in _LOOPBACK or proxy_bypass(parts.netloc):
            return None
        return getproxies().get(parts.scheme)


def tls_context(endpoint: Endpoint, client: ClientCertificate | None) -> ssl.SSLContext:
    """A TLS context with the endpoint's CA and the client certificate."""
    try:
        context = _server_context(endpoint)
        if client is not None:
            _load_client_certificate(context, client)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError, an unreadable file a ValueError
        raise AccessFault(f"certificates for {endpoint.server} cannot be used: {error}") from error
    return context


def _server_context(endpoint: Endpoint) -> ssl.SSLContext:
    if endpoint.ca is None:
        context = ssl.create_default_context()
    else:
        trusted = endpoint.ca.read().decode("ascii", "replace")
        if not trusted.strip():  # empty data would make OpenSSL trust the CAs of the system
            raise AccessFault(f"the certificate authority for {endpoint.server} is empty")
        context = ssl.create_default_context(cadata=trusted)
    if endpoint.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _load_client_certificate(context: ssl.SSLContext, client: ClientCertificate) -> None:
    """Load the client certificate. OpenSSL reads it from a file only: a private one, deleted at once."""
    with tempfile.NamedTemporaryFile(prefix="dovetail-") as file:
        file.write(client.certificate + b"\n" + client.key)
        file.flush()
        context.load_cert_chain(file.name)
