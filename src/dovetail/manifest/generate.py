"""Generates the CRDs and the API reference from the types: `python -m dovetail.manifest.generate [ROOT]`."""

import sys
from collections.abc import Mapping
from pathlib import Path

from dovetail.manifest.api_reference import reference
from dovetail.manifest.crd import RESOURCES, crd_yaml


def generated() -> Mapping[str, str]:
    """The text of every generated file, by its path in the repository."""
    files = {f"deploy/crds/{each.kind.group}_{each.kind.plural}.yaml": crd_yaml(each) for each in RESOURCES}
    return {**files, "docs/reference/api.md": reference()}


def write_generated(root: Path) -> None:
    """Write all generated files."""
    for path, text in generated().items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_generated(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
