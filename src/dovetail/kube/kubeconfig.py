"""Reads and merges kubeconfig files by the rules of kubectl, and selects one context.

The first file that defines a cluster, user, context or the current context takes precedence. Paths in a file are
relative to it. Every fault of the selected context is reported at once, with its file and the remedy.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from dovetail.kube.endpoint import AccessFault
from dovetail.manifest.codec import place_of
from dovetail.manifest.input_file import InputUnreadable, read_text
from dovetail.manifest.safe_yaml import YamlInvalid, read_yaml
from dovetail.model.kube_object import Fault


class ClusterEntry(msgspec.Struct, rename="kebab"):
    """A cluster entry."""

    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    extensions: list["NamedExtension"] | None = None


class NamedExtension(msgspec.Struct):
    """An extension of a cluster entry; the exec protocol passes one of them to plugins."""

    name: str = ""
    extension: Any = None


class EnvEntry(msgspec.Struct):
    """An environment variable for an exec plugin."""

    name: str
    value: str = ""


class ExecEntry(msgspec.Struct, rename="camel"):
    """The exec plugin of a user entry."""

    command: str = ""
    args: list[str] | None = None
    env: list[EnvEntry] | None = None
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class UserEntry(msgspec.Struct, rename="kebab"):
    """A user entry."""

    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    exec: ExecEntry | None = None
    auth_provider: dict[str, Any] | None = None
    impersonate: str = msgspec.field(default="", name="as")
    impersonate_uid: str = msgspec.field(default="", name="as-uid")
    impersonate_groups: list[str] | None = msgspec.field(default=None, name="as-groups")
    impersonate_extra: dict[str, list[str]] | None = msgspec.field(default=None, name="as-user-extra")


class ContextEntry(msgspec.Struct):
    """A context entry."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(msgspec.Struct):
    name: str
    cluster: ClusterEntry | None = None


class _NamedUser(msgspec.Struct):
    name: str
    user: UserEntry | None = None


class _NamedContext(msgspec.Struct):
    name: str
    context: ContextEntry | None = None


class _File(msgspec.Struct):
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None
    current_context: str | None = msgspec.field(default=None, name="current-context")


@dataclass(slots=True)
class Kubeconfig:
    """The merged files. Each entry keeps the file it comes from."""

    files: tuple[Path, ...]
    clusters: dict[str, tuple[ClusterEntry, Path]] = field(default_factory=dict)
    users: dict[str, tuple[UserEntry, Path]] = field(default_factory=dict)
    contexts: dict[str, tuple[ContextEntry, Path]] = field(default_factory=dict)
    current_context: str = ""

    @property
    def shown(self) -> str:
        """The file names, for messages."""
        return ", ".join(str(file) for file in self.files)


def kubeconfig_files(explicit: Path | None, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The files to read: the explicit one, else those of `KUBECONFIG`."""
    if explicit is not None:
        return (explicit.expanduser(),)
    listed = [Path(entry) for entry in environ.get("KUBECONFIG", "").split(os.pathsep) if entry]
    return tuple(dict.fromkeys(listed))


def load(files: tuple[Path, ...], *, may_miss: bool) -> Kubeconfig:
    """Read and merge the files. With `may_miss`, some of them may be missing, but not all."""
    found = tuple(file for file in files if file.exists())
    missing = [file for file in files if file not in found]
    if missing and (not may_miss or not found):
        raise AccessFault(
            f"kubeconfig {', '.join(map(str, missing))}: no such file; specify another with --kubeconfig or KUBECONFIG"
        )
    merged = Kubeconfig(found)
    for file in found:
        _merge(merged, _read(file), file)
    return merged


def _read(file: Path) -> _File:
    try:
        content = read_yaml(read_text(file)).content
        return msgspec.convert({} if content is None else content, _File)
    except InputUnreadable as error:
        raise AccessFault(f"kubeconfig {file}: {error}") from error
    except YamlInvalid as error:
        raise AccessFault(f"kubeconfig {file}: is not YAML on line {error.line + 1}: {error}") from error
    except msgspec.ValidationError as error:
        place, problem = place_of(error)
        raise AccessFault(f"kubeconfig {file}: is not a kubeconfig: {place or 'the file'} {problem}") from error


def _merge(merged: Kubeconfig, read: _File, file: Path) -> None:
    for cluster in read.clusters or ():
        merged.clusters.setdefault(cluster.name, (cluster.cluster or ClusterEntry(), file))
    for user in read.users or ():
        merged.users.setdefault(user.name, (user.user or UserEntry(), file))
    for context in read.contexts or ():
        merged.contexts.setdefault(context.name, (context.context or ContextEntry(), file))
    merged.current_context = merged.current_context or read.current_context or ""


@dataclass(frozen=True, slots=True)
class SelectedContext:
    """One context with the cluster and user that it refers to."""

    name: str
    context: ContextEntry
    cluster: ClusterEntry
    cluster_file: Path
    user: UserEntry
    user_file: Path


@dataclass(frozen=True, slots=True)
class EksContext:
    """The EKS cluster of a context, and the AWS profile of its credential plugin; empty fields are not known."""

    cluster_name: str = ""
    region: str = ""
    profile: str = ""


NO_EKS = EksContext()
_EKS_ARN = re.compile(r"arn:[a-z-]+:eks:(?P<region>[a-z0-9-]+):\d+:cluster/(?P<name>[\w-]+)")
_EKS_HOST = re.compile(r"\.(?P<region>[a-z0-9-]+)\.eks\.amazonaws\.com")
_NAME_FLAGS = ("--cluster-name", "--cluster-id", "-i")


def eks_context(chosen: SelectedContext) -> EksContext:
    """Read the EKS cluster from the arguments of the credential plugin, the cluster's ARN and the server's address.

    These are the kubeconfigs that `aws eks update-kubeconfig` and eksctl write.
    """
    plugin = chosen.user.exec or ExecEntry()
    arguments = tuple(plugin.args or ()) if "aws" in plugin.command else ()
    arn = _EKS_ARN.fullmatch(chosen.context.cluster)
    host = _EKS_HOST.search(chosen.cluster.server)
    environment = {each.name: each.value for each in plugin.env or ()}
    return EksContext(
        cluster_name=_argument(arguments, *_NAME_FLAGS) or (arn["name"] if arn else ""),
        region=_argument(arguments, "--region")
        or environment.get("AWS_REGION", "")
        or next((found["region"] for found in (arn, host) if found), ""),
        profile=_argument(arguments, "--profile") or environment.get("AWS_PROFILE", ""),
    )


def _argument(arguments: Sequence[str], *flags: str) -> str:
    """Return the value of the first of these flags, as `--flag VALUE` or `--flag=VALUE`."""
    for position, argument in enumerate(arguments):
        flag, equals, value = argument.partition("=")
        if flag in flags:
            return value if equals else next(iter(arguments[position + 1 :]), "")
    return ""


def choose(config: Kubeconfig, requested: str | None) -> SelectedContext:
    """Select the named context, or the current one."""
    name = requested or config.current_context
    known = ", ".join(sorted(config.contexts)) or "none"
    if not name:
        raise AccessFault(
            f"kubeconfig {config.shown}: current-context is not set; choose one with --context (available: {known})"
        )
    if name not in config.contexts:
        raise AccessFault(
            f"kubeconfig {config.shown}: there is no context {name!r}; choose one with --context (available: {known})"
        )
    context, file = config.contexts[name]
    faults = list(_missing_references(config, context, f"contexts[{name}]"))
    if faults:
        raise invalid_context(file, name, faults)
    cluster, cluster_file = config.clusters[context.cluster]
    user, user_file = config.users[context.user] if context.user else (UserEntry(), file)
    return SelectedContext(name, context, cluster, cluster_file, user, user_file)


def _missing_references(config: Kubeconfig, context: ContextEntry, path: str) -> list[Fault]:
    faults = []
    if context.cluster not in config.clusters:
        remedy = f"name one of: {', '.join(sorted(config.clusters)) or 'none are defined'}"
        faults.append(Fault(f"{path}.cluster", "there is no cluster of that name", context.cluster, remedy))
    if context.user and context.user not in config.users:
        remedy = f"name one of: {', '.join(sorted(config.users)) or 'none are defined'}"
        faults.append(Fault(f"{path}.user", "there is no user of that name", context.user, remedy))
    return faults


def invalid_context(file: Path, context: str, faults: list[Fault]) -> AccessFault:
    """An error with all faults of a context."""
    return AccessFault(f"kubeconfig {file}, context {context!r}: " + "; ".join(str(fault) for fault in faults))
