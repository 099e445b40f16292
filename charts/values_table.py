"""Writes the table of values into the README.md of each chart, from values.yaml: `python charts/values_table.py`.

A comment that starts with `# --` describes the value below it. A value with such a comment is a row of the table,
together with all that is inside it.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
CHARTS = ("dovetail", "dovetail-crds")
START, END = "<!-- values: written by charts/values_table.py -->", "<!-- end of values -->"
LONGEST_DEFAULT = 50
_LINE = re.compile(r"(?P<indent> *)(?:# -- (?P<about>.*)|(?P<key>\w+):.*)$")


def described(text: str) -> Iterator[tuple[str, str]]:
    """The path of each described value, and its description."""
    parents: list[tuple[int, str]] = []
    about = ""
    for line in text.splitlines():
        found = _LINE.match(line)
        if found is None:
            continue
        if found["about"] is not None:
            about = found["about"]
            continue
        indent = len(found["indent"])
        parents = [*((at, name) for at, name in parents if at < indent), (indent, found["key"])]
        if about:
            yield ".".join(name for _, name in parents), about
            about = ""


def value_at(values: Any, path: str) -> Any:
    """The default at a dotted path."""
    for name in path.split("."):
        values = values[name]
    return values


def table(text: str) -> str:
    """The table for the text of a values.yaml."""
    values = yaml.safe_load(text)
    rows = ["| value | default | |", "|---|---|---|"]
    for path, about in described(text):
        default = json.dumps(value_at(values, path))
        shown = f"`{default}`" if len(default) <= LONGEST_DEFAULT else "see `values.yaml`"
        rows.append(f"| `{path}` | {shown} | {about} |")
    return "\n".join(rows)


def with_table(readme: str, values: str) -> str:
    """A README with the table of these values between its marks."""
    head, _, rest = readme.partition(START)
    _, _, tail = rest.partition(END)
    return f"{head}{START}\n\n{table(values)}\n\n{END}{tail}"


def main() -> None:
    """Write the tables."""
    for chart in CHARTS:
        readme = HERE / chart / "README.md"
        readme.write_text(with_table(readme.read_text(), (HERE / chart / "values.yaml").read_text()))


if __name__ == "__main__":
    main()
