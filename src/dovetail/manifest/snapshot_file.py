"""Reads and writes snapshot files: JSON or YAML, optionally compressed with gzip.

Reading detects the format from the content, writing from the file name. Equal snapshots give equal bytes, so files can
be compared.
"""

import gzip
from pathlib import Path
from typing import Any, Literal

import msgspec

from dovetail.manifest.input_file import InputUnreadable, decompressed, read_bytes, text_of
from dovetail.manifest.safe_yaml import YamlInvalid, read_yaml
from dovetail.manifest.schema_check import join
from dovetail.manifest.snapshot_document import SnapshotInvalid, dump_snapshot, load_snapshot
from dovetail.manifest.yaml_output import to_yaml
from dovetail.model.kube_object import Fault
from dovetail.model.snapshot import Snapshot

__all__ = ["SnapshotInvalid", "dump_snapshot", "file_form", "load_snapshot", "read_snapshot_file", "snapshot_bytes"]

Form = Literal["json", "yaml"]
_FORMS: dict[str, Form] = {".json": "json", ".yaml": "yaml", ".yml": "yaml"}
_TRUNCATED = "was the file truncated? Copy it again, or take the snapshot again"


def file_form(name: str) -> tuple[Form, bool]:
    """The format that a file name implies, and whether it is compressed. Raises ValueError if neither."""
    plain = name.removesuffix(".gz")
    form = _FORMS.get(Path(plain).suffix.lower())
    if form is None:
        raise ValueError(f"{name!r} implies no format; use a name that ends in .json, .yaml, .json.gz or .yaml.gz")
    return form, plain != name


def snapshot_bytes(snapshot: Snapshot, form: Form = "json", *, gzipped: bool = False) -> bytes:
    """The content of a snapshot file."""
    document = dump_snapshot(snapshot)
    if form == "json":
        content = msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
    else:
        content = to_yaml(document, default_flow_style=None).encode()
    return gzip.compress(content, mtime=0) if gzipped else content


def read_snapshot_file(source: Path | bytes) -> Snapshot:
    """Read a file or its content. Raises `SnapshotInvalid` with every fault."""
    place = "$" if isinstance(source, bytes) else str(source)
    try:
        content = text_of(decompressed(source) if isinstance(source, bytes) else read_bytes(source))
    except InputUnreadable as error:
        raise _invalid(place, error.problem, error.remedy) from None
    return load_snapshot(_parse(content))


def _parse(content: str) -> Any:
    if not content.strip():
        raise _invalid("$", "is empty", "make one with dovetail snapshot -o FILE")
    if content.lstrip()[:1] in ("{", "["):
        return _parse_json(content)
    try:
        read = read_yaml(content)
    except YamlInvalid as error:
        raise _invalid(
            error.path or "$", f"is not YAML on line {error.line + 1}: {error.problem}", _TRUNCATED
        ) from None
    if read.repeated:
        path, name = read.repeated[0]
        raise _invalid(join(path, name), "occurs twice in one mapping", "keep one, or take the snapshot again")
    return read.content


def _parse_json(content: str) -> Any:
    try:
        return msgspec.json.decode(content)
    except RecursionError:
        raise _invalid("$", "is nested too deeply to be a snapshot", _TRUNCATED) from None
    except ValueError as error:  # includes errors of msgspec and UTF-8
        raise _invalid("$", f"is not JSON: {error}", _TRUNCATED) from None


def _invalid(path: str, problem: str, remedy: str) -> SnapshotInvalid:
    return SnapshotInvalid((Fault(path, problem, remedy=remedy),))
