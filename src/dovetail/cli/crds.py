"""`dovetail crds`: the CustomResourceDefinitions, ready for `kubectl apply --server-side -f -`."""

from typing import Annotated

import typer


def crds(
    kind: Annotated[
        str, typer.Option("--kind", help="Only this kind: NodePool, NodeClaim or KWOKNodeClass.", show_default=False)
    ] = "",
) -> None:
    """Print the CustomResourceDefinitions as YAML: dovetail crds | kubectl apply --server-side -f -."""
    from dovetail.manifest.crd import RESOURCES, crd_yaml

    chosen = [each for each in RESOURCES if not kind or each.kind.name.lower() == kind.lower()]
    if not chosen:
        known = ", ".join(each.kind.name for each in RESOURCES)
        raise typer.BadParameter(f"{kind!r} is none of {known}", param_hint="--kind")
    typer.echo("".join(crd_yaml(each) for each in chosen), nl=False)
