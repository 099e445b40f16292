"""Snapshot files: JSON or YAML, as they are or with gzip. Reading tells them apart by content, writing by name.

The same snapshot gives the same bytes, so files can be compared.
"""

import gzip
import zlib
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml

from dovetail.manifest.documents import SCALARS
from dovetail.manifest.snapshot_document import SnapshotInvalid, dump_snapshot, load_snapshot
from dovetail.model.snapshot import Snapshot
from dovetail.model.wire import Fault

__all__ = ["SnapshotInvalid", "dump_snapshot", "file_form", "load_snapshot", "read_snapshot_file", "snapshot_bytes"]

Form = Literal["json", "yaml"]
_FORMS: dict[str, Form] = {".json": "json", ".yaml": "yaml", ".yml": "yaml"}
_GZIP = b"\x1f\x8b"
_WIDTH = 120
_WHOLE = "was the file cut short? Copy it again, or take the snapshot again"
# libyaml is ten times as fast; PyYAML has it where wheels are installed.
_FastLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_FastDumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Loader(_FastLoader):  # type: ignore[misc]  # either of two
    """Scalars mean what they mean to kubectl: an instant is text."""

    yaml_implicit_resolvers = SCALARS


class _Dumper(_FastDumper):  # type: ignore[misc]  # either of two
    """Writes every value out: a name that refers to another place would only puzzle."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def file_form(name: str) -> tuple[Form, bool]:
    """What a file of this name holds, and whether gzip is around it; ValueError if the name does not say."""
    plain = name.removesuffix(".gz")
    form = _FORMS.get(Path(plain).suffix.lower())
    if form is None:
        raise ValueError(f"{name!r} does not say how to write; end it in .json, .yaml, .json.gz or .yaml.gz")
    return form, plain != name


def snapshot_bytes(snapshot: Snapshot, form: Form = "json", *, gzipped: bool = False) -> bytes:
    """The file of a snapshot."""
    document = dump_snapshot(snapshot)
    if form == "json":
        content = msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
    else:
        text: str = yaml.dump(
            document, Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=_WIDTH, allow_unicode=True
        )
        content = text.encode()
    return gzip.compress(content, mtime=0) if gzipped else content


def read_snapshot_file(source: Path | bytes) -> Snapshot:
    """Read a file, or its contents; `SnapshotInvalid` carries every fault."""
    if isinstance(source, bytes):
        content = source
    else:
        try:
            content = source.read_bytes()
        except OSError as error:
            raise _useless(str(source), f"cannot be read: {error.strerror}", "check the path") from None
    return load_snapshot(_parse(_unpacked(content)))


def _unpacked(content: bytes) -> bytes:
    if not content.startswith(_GZIP):
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise _useless("$", f"cannot be unpacked with gzip: {error}", _WHOLE) from None


def _parse(content: bytes) -> Any:
    if not content.strip():
        raise _useless("$", "is empty", "make one with dovetail snapshot -o FILE")
    if content.lstrip()[:1] in (b"{", b"["):
        try:
            return msgspec.json.decode(content)
        except RecursionError:
            raise _useless("$", "is nested too deeply to be a snapshot", _WHOLE) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _useless("$", f"is not JSON: {error}", _WHOLE) from None
    try:
        return yaml.load(content, Loader=_Loader)  # noqa: S506 - a safe loader with other scalars
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f" on line {mark.line + 1}" if mark else ""
        problem = " ".join(filter(None, (error.context, error.problem)))
        raise _useless("$", f"is not YAML{line}: {problem}", _WHOLE) from None
    except RecursionError:
        raise _useless("$", "is nested too deeply to be a snapshot", _WHOLE) from None
    except (yaml.YAMLError, ValueError) as error:
        raise _useless("$", f"is neither JSON nor YAML: {error}", _WHOLE) from None


def _useless(path: str, problem: str, remedy: str) -> SnapshotInvalid:
    return SnapshotInvalid((Fault(path, problem, remedy=remedy),))
