"""The scenario of the demo: a file of the package in the format that `dovetail simulate` reads."""

from importlib import resources
from typing import Any

import msgspec
import yaml

from dovetail.cloud.kwok.node import NODE_CLASS_KIND
from dovetail.sim.scenario.document import Scenario, read_scenario
from dovetail.sim.scenario.parsing import Stretch

Plain = dict[str, Any]
_REPLACED = ("NodePool", NODE_CLASS_KIND)


def demo_scenario(
    length: str = "2h", *, seed: int = 0, catalog: str = "realistic", nodepools: tuple[Plain, ...] = ()
) -> Scenario:
    """The shipped scenario, of another length, seed and catalog, or with other NodePools and their node classes."""
    text = resources.files("dovetail.cli.demo").joinpath("scenario.yaml").read_text(encoding="utf-8")
    document = yaml.safe_load(text)
    if nodepools:
        _replace_nodepools(document["spec"], nodepools)
    scenario = read_scenario(document, "demo")
    return msgspec.structs.replace(scenario, lasts=Stretch(length), seed=seed, catalog=catalog)


def _replace_nodepools(spec: Plain, nodepools: tuple[Plain, ...]) -> None:
    """Events for nodes of one NodePool get one of the new NodePools: one that repairs its nodes, else any."""
    spec["objects"] = [*nodepools, *(each for each in spec["objects"] if each["kind"] not in _REPLACED)]
    repairing = [pool["metadata"]["name"] for pool in nodepools if (pool.get("spec") or {}).get("repair") is not None]
    for event in spec["events"]:
        for target in event.values():
            if isinstance(target, dict) and "nodepool" in target:
                target["nodepool"] = repairing[0] if repairing else ""
