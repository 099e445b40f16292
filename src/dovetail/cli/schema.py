"""`dovetail schema`: prints a JSON Schema for editors."""

from typing import Annotated

import typer

from dovetail.cli.safe_output import echo, json_text


def schema(
    kind: Annotated[
        str,
        typer.Option("--kind", help="Print only the schema of this kind, such as NodePool.", show_default=False),
    ] = "",
    api_version: Annotated[
        str, typer.Option("--api-version", help="With --kind: the version, such as v1. Default: the stored version.")
    ] = "",
) -> None:
    """Print a JSON Schema for editors, of all kinds or of one.

    [bold]Examples[/bold]
      dovetail schema > dovetail.json
      dovetail schema --kind NodePool --api-version v1beta1
    """
    from dovetail.manifest.editor_schema import DRAFT, combined_schema, kind_schema
    from dovetail.manifest.schema import KINDS, Scope

    if not kind and not api_version:
        echo(json_text(combined_schema()))
        return
    names = {scope.kind.lower(): stored for scope, stored in KINDS.items()}
    if kind.lower() not in names:
        known = ", ".join(dict.fromkeys(scope.kind for scope in KINDS))
        raise typer.BadParameter(f"{kind!r} is not a kind; the kinds are {known}", param_hint="--kind")
    stored = names[kind.lower()]
    scope = Scope(stored.name, api_version.rpartition("/")[2] or stored.version)
    if scope not in KINDS:
        versions = ", ".join(each.version for each in KINDS if each.kind == stored.name)
        raise typer.BadParameter(
            f"{api_version!r} is not a version of {stored.name}; the versions are {versions}",
            param_hint="--api-version",
        )
    echo(json_text({"$schema": DRAFT, **kind_schema(scope)}))
