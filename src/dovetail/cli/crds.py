"""`dovetail crds`: prints the CustomResourceDefinitions for `kubectl apply --server-side -f -`."""

from typing import Annotated

import typer


def crds(
    kind: Annotated[
        str, typer.Option("--kind", help="Print only this kind, such as NodePool.", show_default=False)
    ] = "",
) -> None:
    """Print the CustomResourceDefinitions as YAML. Install:  dovetail crds | kubectl apply --server-side -f -"""
    from dovetail.manifest.crd import RESOURCES, crd_yaml

    chosen = [each for each in RESOURCES if not kind or each.kind.name.lower() == kind.lower()]
    if not chosen:
        known = ", ".join(each.kind.name for each in RESOURCES)
        raise typer.BadParameter(f"{kind!r} is not a kind; the kinds are {known}", param_hint="--kind")
    typer.echo("".join(crd_yaml(each) for each in chosen), nl=False)
