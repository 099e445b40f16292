"""Finds the API server and the credentials: from a kubeconfig, or from the service account of the pod.

The order of precedence is: `--kubeconfig`, `KUBECONFIG`, the pod's service account, `~/.kube/config`. All faults of the
selected cluster or user entry are reported together, with the file, the field and the remedy. `connect` makes the
`Cluster` client; the first request is sent by its first call.
"""

import os
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from urllib.parse import quote, urlsplit

from dovetail.kube.client import KubeCluster
from dovetail.kube.credentials import (
    VERSIONS,
    Credentials,
    CredentialSource,
    ExecCredentialSource,
    Headers,
    StaticCredentialSource,
    basic,
    bearer,
)
from dovetail.kube.endpoint import AccessFault, Endpoint, Pem
from dovetail.kube.kubeconfig import (
    NO_EKS,
    ClusterEntry,
    EksContext,
    ExecEntry,
    SelectedContext,
    UserEntry,
    choose,
    eks_context,
    invalid_context,
    kubeconfig_files,
    load,
)
from dovetail.kube.transport import DEFAULT_LIMITS, Transport, TransportLimits
from dovetail.manifest.input_file import InputUnreadable, read_text
from dovetail.model.kube_object import Fault
from dovetail.ports.clock import Clock

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_EXEC_EXTENSION = "client.authentication.k8s.io/exec"


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """The endpoint of one API server and the source of credentials for it."""

    endpoint: Endpoint
    source: CredentialSource
    shown: str  # its name for users: the context, or "in-cluster"
    namespace: str = "default"
    eks: EksContext = NO_EKS


def find_access(kubeconfig: Path | None, context: str | None, environ: Mapping[str, str]) -> ClusterAccess:
    """The access that the options select, or the first one found."""
    files = kubeconfig_files(kubeconfig, environ)
    if files:
        return read_access(choose(load(files, may_miss=kubeconfig is None), context))
    if environ.get("KUBERNETES_SERVICE_HOST") and context is None:
        return in_cluster(environ, SERVICE_ACCOUNT)
    home = Path(environ.get("HOME", "~")).expanduser() / ".kube" / "config"
    if home.exists():
        return read_access(choose(load((home,), may_miss=False), context))
    missing = f"neither --kubeconfig nor KUBECONFIG is set, this is not a pod, and {home} does not exist"
    raise AccessFault(f"no kubeconfig: {missing}; specify one with --kubeconfig FILE")


def in_cluster(environ: Mapping[str, str], directory: Path) -> ClusterAccess:
    """The access of this pod: its service account token, read again every minute, and the cluster's CA."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    token, ca = directory / "token", directory / "ca.crt"
    missing = [str(file) for file in (token, ca) if not file.exists()]
    if not host:
        raise AccessFault("KUBERNETES_SERVICE_HOST is not set: this is not a pod; pass --kubeconfig")
    if missing:
        raise AccessFault(f"{', '.join(missing)}: no such file; let the pod mount its service account token")
    try:
        namespace = read_text(directory / "namespace").strip() if (directory / "namespace").exists() else "default"
    except InputUnreadable as error:
        raise AccessFault(f"{directory / 'namespace'}: {error}") from error
    return ClusterAccess(
        Endpoint(server=f"https://{f'[{host}]' if ':' in host else host}:{port}", ca=Pem(file=ca)),
        StaticCredentialSource(token_file=token),
        "in-cluster",
        namespace,
    )


def read_access(chosen: SelectedContext) -> ClusterAccess:
    """The access that a context of a kubeconfig describes."""
    cluster = _Reader(chosen.cluster_file, f"clusters[{chosen.context.cluster}]")
    endpoint = _endpoint(chosen.cluster, cluster)
    if cluster.faults:
        raise invalid_context(cluster.file, chosen.name, cluster.faults)
    user = _Reader(chosen.user_file, f"users[{chosen.context.user}]")
    source = _source(chosen, user, endpoint)
    if user.faults:
        raise invalid_context(user.file, chosen.name, user.faults)
    return ClusterAccess(endpoint, source, chosen.name, chosen.context.namespace or "default", eks_context(chosen))


@dataclass(slots=True)
class _Reader:
    """Reads one entry of a file and collects its faults."""

    file: Path
    entry: str
    faults: list[Fault] = field(default_factory=list)

    def fault(self, name: str, problem: str, remedy: str, value: object = None) -> None:
        self.faults.append(Fault(f"{self.entry}.{name}", problem, value, remedy))

    def path(self, value: str) -> Path:
        return self.file.parent / Path(value).expanduser()

    def pem(self, name: str, value: str, data: str) -> Pem | None:
        """The PEM of `data`, which takes precedence, or of a file."""
        if data:
            try:
                return Pem(data=b64decode("".join(data.split()), validate=True))
            except (NotBase64, ValueError):
                self.fault(f"{name}-data", "is not base64", f"encode the PEM text, or use {name} with a file")
                return None
        if not value:
            return None
        path = self.path(value)
        if not path.is_file():
            self.fault(name, "no such file", "correct the path, or embed the data", str(path))
        return Pem(file=path)


def _endpoint(entry: ClusterEntry, reader: _Reader) -> Endpoint:
    if urlsplit(entry.server).scheme not in ("http", "https") or not urlsplit(entry.server).hostname:
        reader.fault("server", "is not the URL of an API server", "write https://host:port", entry.server)
    if entry.proxy_url and urlsplit(entry.proxy_url).scheme not in ("http", "https"):
        reader.fault("proxy-url", "only http and https proxies are supported", "use one", entry.proxy_url)
    ca = reader.pem("certificate-authority", entry.certificate_authority, entry.certificate_authority_data)
    if ca is not None and entry.insecure_skip_tls_verify:
        reader.fault("insecure-skip-tls-verify", "contradicts the certificate authority", "keep one of the two")
    return Endpoint(
        server=entry.server.rstrip("/"),
        ca=ca,
        insecure=entry.insecure_skip_tls_verify,
        tls_server_name=entry.tls_server_name,
        proxy=entry.proxy_url,
    )


def _source(chosen: SelectedContext, reader: _Reader, endpoint: Endpoint) -> CredentialSource:
    user = chosen.user
    if user.auth_provider is not None:
        name = user.auth_provider.get("name", "?")
        reader.fault("auth-provider", f"{name!r} was removed from Kubernetes", "use the exec plugin of your provider")
    if user.token and user.username:
        reader.fault("token", "is set together with username and password", "keep one way to authenticate")
    certificate = reader.pem("client-certificate", user.client_certificate, user.client_certificate_data)
    key = reader.pem("client-key", user.client_key, user.client_key_data)
    if (certificate is None) != (key is None):
        reader.fault("client-certificate", "certificate and key belong together", "set both, or neither")
    token_file = reader.path(user.token_file) if user.token_file else None
    if token_file is not None and not token_file.is_file():
        reader.fault("tokenFile", "no such file", "correct the path", str(token_file))
    if user.exec is not None and certificate is not None:
        reader.fault("exec", "is set together with a client certificate", "keep one way to authenticate")
    if user.exec is not None and not user.token and not user.username and token_file is None:
        return _exec_source(chosen, user.exec, reader, endpoint)
    return StaticCredentialSource(headers=_headers(user), token_file=token_file, certificate=certificate, key=key)


def _headers(user: UserEntry) -> Headers:
    headers: Headers = ()
    if user.token and not user.token_file:
        headers = bearer(user.token)
    elif user.username:
        headers = basic(user.username, user.password)
    return headers + _impersonation(user)


def _impersonation(user: UserEntry) -> Headers:
    headers = [("Impersonate-User", user.impersonate), ("Impersonate-Uid", user.impersonate_uid)]
    headers += [("Impersonate-Group", group) for group in user.impersonate_groups or ()]
    for name, values in (user.impersonate_extra or {}).items():
        headers += [(f"Impersonate-Extra-{quote(name, safe='')}", value) for value in values]
    return tuple((name, value) for name, value in headers if value)


def _exec_source(
    chosen: SelectedContext, entry: ExecEntry, reader: _Reader, endpoint: Endpoint
) -> ExecCredentialSource:
    if not entry.command:
        reader.fault("exec.command", "is missing", "set the command that prints the credential")
    if entry.api_version not in VERSIONS:
        reader.fault("exec.apiVersion", "is not supported", f"use {VERSIONS[0]}", entry.api_version)
    if entry.interactive_mode == "Always":
        reader.fault(
            "exec.interactiveMode", "needs a terminal, which the plugin does not get", "use a non-interactive plugin"
        )
    config = next((ext.extension for ext in chosen.cluster.extensions or () if ext.name == _EXEC_EXTENSION), None)
    return ExecCredentialSource(
        command=str(reader.path(entry.command)) if "/" in entry.command else entry.command,
        args=tuple(entry.args or ()),
        env={variable.name: variable.value for variable in entry.env or ()},
        api_version=entry.api_version,
        install_hint=entry.install_hint,
        cluster=endpoint if entry.provide_cluster_info else None,
        cluster_config=config,
        headers=_impersonation(chosen.user),
    )


async def connect(
    kubeconfig: Path | None, context: str | None, clock: Clock, random: Random, limits: TransportLimits = DEFAULT_LIMITS
) -> KubeCluster:
    """Connect to the cluster of a kubeconfig context, or of this pod. Sends no request."""
    return await open_cluster(find_access(kubeconfig, context, os.environ), clock, random, limits)


async def open_cluster(
    access: ClusterAccess, clock: Clock, random: Random, limits: TransportLimits = DEFAULT_LIMITS
) -> KubeCluster:
    """Connect to a cluster whose access is already known. Sends no request."""
    return KubeCluster(Transport(access.endpoint, Credentials(access.source, clock), limits), random)
