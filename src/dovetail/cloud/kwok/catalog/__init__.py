"""What can be bought from the kwok provider: two shipped catalogues, or a file of one's own."""

from collections.abc import Callable, Mapping
from pathlib import Path

from dovetail.cloud.kwok.catalog.generic import generic_catalog
from dovetail.cloud.kwok.catalog.instance_types_file import InstanceTypesInvalid, load_instance_types
from dovetail.cloud.kwok.catalog.realistic import realistic_catalog
from dovetail.model.catalog import InstanceType

__all__ = [
    "CATALOGS",
    "InstanceTypesInvalid",
    "generic_catalog",
    "load_instance_types",
    "realistic_catalog",
    "select_catalog",
]

CATALOGS: Mapping[str, Callable[[], tuple[InstanceType, ...]]] = {
    "realistic": realistic_catalog,
    "generic": generic_catalog,
}
"""The shipped catalogues, as `--catalog` names them."""


def select_catalog(name: str, file_path: str = "") -> tuple[InstanceType, ...]:
    """The catalogue the settings ask for; a file goes before a name. `InstanceTypesInvalid` if the file is no good."""
    return load_instance_types(Path(file_path)) if file_path else CATALOGS[name]()
