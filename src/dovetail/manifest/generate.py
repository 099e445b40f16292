"""`python -m dovetail.manifest.generate [ROOT]` writes what follows from the types: CRDs and the API reference."""

import sys
from collections.abc import Mapping
from pathlib import Path

from dovetail.manifest.api_reference import reference
from dovetail.manifest.crd import RESOURCES, crd_yaml


def generated() -> Mapping[str, str]:
    """Every generated file: its path in the project, and its text."""
    files = {f"deploy/crds/{each.kind.group}_{each.kind.plural}.yaml": crd_yaml(each) for each in RESOURCES}
    return {**files, "docs/reference/api.md": reference()}


def write_generated(root: Path) -> None:
    """Write them all."""
    for path, text in generated().items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_generated(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
