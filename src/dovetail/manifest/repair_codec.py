"""Repair statements as a snapshot carries them: what the provider calls unhealthy, and how long it tolerates it."""

from typing import Any

from dovetail.model.duration import Duration
from dovetail.model.kube_object import Fault
from dovetail.model.repair import ProviderRepairPolicy

_REMEDY = "write a list of conditionType, status and toleration, such as Ready, Unknown and 10m"


def dump_statements(statements: tuple[ProviderRepairPolicy, ...]) -> dict[str, Any]:
    """The field of a document; none where the provider says nothing."""
    written = [
        {
            "conditionType": each.condition_type,
            "status": each.status,
            "toleration": str(Duration.of(each.toleration)),
        }
        for each in statements
    ]
    return {"repairStatements": written} if written else {}


def load_statements(entries: Any, faults: list[Fault]) -> tuple[ProviderRepairPolicy, ...]:
    """The statements of a document; what cannot be read is a fault."""
    if not isinstance(entries, list):
        faults.append(Fault("repairStatements", "is not a list", entries, _REMEDY))
        return ()
    found = []
    for at, entry in enumerate(entries):
        try:
            toleration = Duration.parse(entry["toleration"]).span
            found.append(ProviderRepairPolicy(str(entry["conditionType"]), str(entry["status"]), toleration))
        except (KeyError, TypeError, ValueError):
            faults.append(Fault(f"repairStatements[{at}]", "is not a repair statement", entry, _REMEDY))
    return tuple(found)
