"""How Bottlerocket images start: settings in TOML. Ours go over those of the user, field by field."""

import tomllib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dovetail.cloud.aws.launch import userdata_shell

if TYPE_CHECKING:
    from dovetail.cloud.aws.launch.userdata import Boot

Table = dict[str, Any]
_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
_STORED = ("/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods")
_MOUNT: Table = {
    "commands": [
        ["apiclient", "ephemeral-storage", "init"],
        ["apiclient", "ephemeral-storage", "bind", "--dirs", *_STORED],
    ],
    "mode": "always",
    "essential": True,
}


def bottlerocket(custom: str, boot: "Boot") -> str:
    """The settings of one start. What the user wrote and cannot be read is left out by EC2NodeClass validation."""
    settings: Table = tomllib.loads(custom) if custom.strip() else {}
    _lay_over(settings, {"settings": {"kubernetes": _kubernetes(boot)}})
    if boot.local_disks:
        _lay_over(settings, {"settings": {"bootstrap-commands": {"000-mount-instance-storage": _MOUNT}}})
    return "\n".join(_written(settings)) + "\n"


def _kubernetes(boot: "Boot") -> Table:
    taints: dict[str, list[str]] = {}
    for taint in boot.taints:
        taints.setdefault(taint.key, []).append(f"{taint.value}:{taint.effect}")
    kubelet = {
        userdata_shell.kebab(name): _plain(value) for name, value in boot.kubelet.items() if name != "clusterDNS"
    }
    dns = userdata_shell.dns_address(boot)
    return {
        **kubelet,
        "api-server": boot.cluster.endpoint,
        "cluster-certificate": boot.cluster.certificate_authority,
        "cluster-name": boot.cluster_name,
        **({"cluster-dns-ip": dns} if dns else {}),
        "node-labels": dict(boot.labels),
        "node-taints": taints,
    }


def _plain(value: Any) -> Any:
    return {str(key): str(each) for key, each in value.items()} if isinstance(value, Mapping) else value


def _lay_over(below: Table, above: Table) -> None:
    for key, value in above.items():
        if isinstance(value, dict) and isinstance(below.get(key), dict):
            _lay_over(below[key], value)
        else:
            below[key] = value


def _written(table: Table, path: tuple[str, ...] = ()) -> Iterator[str]:
    """A table in TOML: its own values first, then its tables."""
    plain = {key: value for key, value in table.items() if not isinstance(value, dict)}
    if path and (plain or not table):
        yield f"[{'.'.join(map(_key, path))}]"
    for key, value in sorted(plain.items()):
        yield f"{_key(key)} = {_value(value)}"
    for key, value in sorted(table.items()):
        if isinstance(value, dict):
            yield from _written(value, (*path, key))


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
