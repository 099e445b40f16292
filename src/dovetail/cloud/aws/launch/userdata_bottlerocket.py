"""The user data of Bottlerocket AMIs: TOML settings. Generated settings override those of the user, field by field."""

import tomllib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dovetail.cloud.aws.launch import userdata_shell

if TYPE_CHECKING:
    from dovetail.cloud.aws.launch.userdata import BootstrapConfig

Table = dict[str, Any]
_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
_DIRECTORIES = ("/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods")
_MOUNT: Table = {
    "commands": [
        ["apiclient", "ephemeral-storage", "init"],
        ["apiclient", "ephemeral-storage", "bind", "--dirs", *_DIRECTORIES],
    ],
    "mode": "always",
    "essential": True,
}


def bottlerocket(custom: str, bootstrap: "BootstrapConfig") -> str:
    """The settings as TOML. Raises `tomllib.TOMLDecodeError` if the user data of the class is not TOML."""
    settings: Table = tomllib.loads(custom) if custom.strip() else {}
    _merge(settings, {"settings": {"kubernetes": _kubernetes(bootstrap)}})
    if bootstrap.local_disks:
        _merge(settings, {"settings": {"bootstrap-commands": {"000-mount-instance-storage": _MOUNT}}})
    return "\n".join(_toml_lines(settings)) + "\n"


def _kubernetes(bootstrap: "BootstrapConfig") -> Table:
    taints: dict[str, list[str]] = {}
    for taint in bootstrap.taints:
        taints.setdefault(taint.key, []).append(f"{taint.value}:{taint.effect}")
    kubelet = {
        userdata_shell.kebab(name): _plain(value) for name, value in bootstrap.kubelet.items() if name != "clusterDNS"
    }
    dns = userdata_shell.dns_address(bootstrap)
    return {
        **kubelet,
        "api-server": bootstrap.cluster.endpoint,
        "cluster-certificate": bootstrap.cluster.certificate_authority,
        "cluster-name": bootstrap.cluster_name,
        **({"cluster-dns-ip": dns} if dns else {}),
        "node-labels": dict(bootstrap.labels),
        "node-taints": taints,
    }


def _plain(value: Any) -> Any:
    return {str(key): str(each) for key, each in value.items()} if isinstance(value, Mapping) else value


def _merge(target: Table, source: Table) -> None:
    for key, value in source.items():
        if isinstance(value, dict) and isinstance(target.get(key), dict):
            _merge(target[key], value)
        else:
            target[key] = value


def _toml_lines(table: Table, path: tuple[str, ...] = ()) -> Iterator[str]:
    """A table as TOML lines: its values first, then its tables."""
    plain = {key: value for key, value in table.items() if not isinstance(value, dict)}
    if path and (plain or not table):
        yield f"[{'.'.join(map(_key, path))}]"
    for key, value in sorted(plain.items()):
        yield f"{_key(key)} = {_value(value)}"
    for key, value in sorted(table.items()):
        if isinstance(value, dict):
            yield from _toml_lines(value, (*path, key))


def _key(name: str) -> str:
    return name if name and set(name) <= _BARE else _quoted(name)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_value(each)}" for key, each in value.items()) + "}"
    return str(value) if isinstance(value, int | float) else _quoted(str(value))


def _quoted(text: str) -> str:
    escaped = (
        text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
    )
    return f'"{escaped}"'
