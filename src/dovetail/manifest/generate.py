"""Generates files from the types: `python -m dovetail.manifest.generate [ROOT]`.

The CRDs for kustomize and for the Helm chart, the JSON Schemas for editors, and the API reference.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

from dovetail.manifest.api_reference import reference
from dovetail.manifest.crd import RESOURCES, crd_yaml
from dovetail.manifest.editor_schema import editor_schemas

_CHART_METADATA = '\n  {{- include "dovetail-crds.metadata" . | nindent 2 }}'


def generated() -> Mapping[str, str]:
    """The text of every generated file, by its path in the repository."""
    crds = {f"{each.kind.group}_{each.kind.plural}.yaml": crd_yaml(each) for each in RESOURCES}
    return {
        **{f"deploy/crds/{name}": text for name, text in crds.items()},
        **{f"charts/dovetail-crds/templates/{name}": _chart_template(text) for name, text in crds.items()},
        **{f"docs/schemas/{name}": text for name, text in editor_schemas().items()},
        "docs/reference/api.md": reference(),
    }


def _chart_template(crd: str) -> str:
    """The CRD as a Helm template that adds the labels and annotations of the chart."""
    assert "{{" not in crd, "Helm would evaluate it"
    head, name, rest = crd.partition("\nmetadata:\n  name: ")
    line, _, body = rest.partition("\n")
    return f"{head}{name}{line}{_CHART_METADATA}\n{body}"


def write_generated(root: Path) -> None:
    """Write all generated files."""
    for path, text in generated().items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_generated(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
