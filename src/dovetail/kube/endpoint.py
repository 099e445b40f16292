"""Where an API server is and how its connection is secured.

Turns the TLS half of a kubeconfig, or of a pod's service account, into an `ssl.SSLContext`. Who we are is for
`credentials` to say; a client certificate comes from there.
"""

import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from dovetail.manifest.input_file import read_bytes
from dovetail.ports.errors import ApiError

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class AccessFault(ApiError):
    """There is no usable way to the API server; the message names the place and the remedy."""


@dataclass(frozen=True, slots=True)
class Pem:
    """Certificates or a key: the data itself, or the file that holds it and may be replaced there."""

    data: bytes = b""
    file: Path | None = None

    def read(self) -> bytes:
        """The text now."""
        return self.data if self.file is None else read_bytes(self.file)


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A certificate that says who we are, with its key."""

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
        """Whether TLS is spoken."""
        return self.server.startswith("https://")

    @property
    def proxy_url(self) -> str | None:
        """The proxy to go through: the one written down, else the environment's, never for this very machine."""
        if self.proxy:
            return self.proxy
        parts = urlsplit(self.server)
        host = parts.hostname or ""
        if host in _LOOPBACK or proxy_bypass(parts.netloc):
            return None
        return getproxies().get(parts.scheme)


def tls_context(endpoint: Endpoint, client: ClientCertificate | None) -> ssl.SSLContext:
    """A context that trusts what the endpoint says and shows the client's certificate."""
    try:
        context = _trusting(endpoint)
        if client is not None:
            _show(context, client)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError, an unreadable file a ValueError
        raise AccessFault(f"certificates for {endpoint.server} cannot be used: {error}") from error
    return context


def _trusting(endpoint: Endpoint) -> ssl.SSLContext:
    if endpoint.ca is None:
        context = ssl.create_default_context()
    else:
        trusted = endpoint.ca.read().decode("ascii", "replace")
        if not trusted.strip():  # nothing to trust must not mean to trust everyone the system does
            raise AccessFault(f"the certificate authority for {endpoint.server} is empty")
        context = ssl.create_default_context(cadata=trusted)
    if endpoint.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _show(context: ssl.SSLContext, client: ClientCertificate) -> None:
    """OpenSSL reads certificate and key from files only; the file is readable by us alone and gone at once."""
    with tempfile.NamedTemporaryFile(prefix="dovetail-") as file:
        file.write(client.certificate + b"\n" + client.key)
        file.flush()
        context.load_cert_chain(file.name)
