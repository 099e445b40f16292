"""Writes YAML that kubectl reads back as the same values.

PyYAML leaves text such as `y`, `1e3` and `0o14` without quotes, which kubectl reads as booleans and numbers. Here it is
quoted. Every value is written in full, without aliases. Equal documents give equal text.
"""

import re
from typing import Any

import yaml

# libyaml is ten times as fast; PyYAML has it where wheels are installed.
_FastDumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_FastDumper):  # type: ignore[misc]  # either of two
    def ignore_aliases(self, _data: Any) -> bool:
        return True


_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:not-text",
    re.compile(r"(?:[yYnN]|[-+]?0[oObBxX][0-9a-fA-F_]+|[-+]?[_.]*[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][-+]?[0-9_]+)?)\Z"),
    [*"yYnN-+.0123456789"],
)


def to_yaml(document: Any, *, width: int = 120, **options: Any) -> str:
    """The document as YAML. The options are those of PyYAML."""
    settings = {"sort_keys": False, "allow_unicode": True, "width": width, **options}
    text: str = yaml.dump(document, Dumper=_Dumper, **settings)
    return text
