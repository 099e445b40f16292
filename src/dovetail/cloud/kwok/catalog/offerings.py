"""The offerings of an instance-types file: today's spelling by requirements, and the older one by named fields."""

from collections.abc import Callable, Mapping
from typing import Any

from dovetail.model.catalog import Offering
from dovetail.model.labels import CAPACITY_TYPE, CAPACITY_TYPES, ZONE
from dovetail.model.requirement import Requirement
from dovetail.model.requirements import Requirements

ReportFault = Callable[[str, str, object, str], None]
"""Where, what is wrong, the value found, and what to do about it."""
ReadLabelValue = Callable[[str, Any, str], str]

_EXAMPLES = {ZONE: "us-east-1a", CAPACITY_TYPE: "spot"}


class OfferingReader:
    """Reads the offerings of one instance type, and sees that no two are the same."""

    def __init__(self, fault: ReportFault, label_value: ReadLabelValue) -> None:
        self._fault = fault
        self._label_value = label_value
        self._seen: set[Requirements] = set()

    def offering(self, path: str, entry: Any) -> Offering | None:
        """One offering, or None if it was no object at all."""
        if not isinstance(entry, dict):
            self._fault(path, "is not an object", entry, 'write {"Price": 0.1, "Requirements": [...]}')
            return None
        fields = {key.lower(): value for key, value in entry.items()}
        requirements = self._requirements(path, fields)
        if requirements in self._seen:
            self._fault(path, "repeats an earlier offering of this type", str(requirements), "remove one of them")
        self._seen.add(requirements)
        return Offering(requirements, self._price(f"{path}.Price", fields), self._available(path, fields))

    def _price(self, path: str, fields: Mapping[str, Any]) -> float:
        price = fields.get("price")
        if isinstance(price, bool) or not isinstance(price, int | float) or price < 0:
            self._fault(path, "is missing or not a price", price, "write the cost of one hour, such as 0.096")
            return 0.0
        return float(price)

    def _available(self, path: str, fields: Mapping[str, Any]) -> bool:
        available = fields.get("available", True)
        if not isinstance(available, bool):
            self._fault(f"{path}.Available", "is neither true nor false", available, "write true, or leave it out")
        return bool(available)

    def _requirements(self, path: str, fields: Mapping[str, Any]) -> Requirements:
        if "requirements" not in fields and ("zone" in fields or "capacitytype" in fields):
            written = Requirements.from_labels(
                {
                    ZONE: self._label_value(f"{path}.zone", fields.get("zone"), _EXAMPLES[ZONE]),
                    CAPACITY_TYPE: self._label_value(f"{path}.capacityType", fields.get("capacitytype"), "spot"),
                }
            )
            self._check_capacity_type(f"{path}.capacityType", written)
            return written
        return self._listed(f"{path}.Requirements", fields.get("requirements"))

    def _listed(self, path: str, value: Any) -> Requirements:
        if not isinstance(value, list):
            self._fault(path, "is missing or not a list", value, f"list a requirement for {ZONE} and {CAPACITY_TYPE}")
            return Requirements({})
        read = (self._requirement(f"{path}[{at}]", each) for at, each in enumerate(value))
        written = Requirements.of(each for each in read if each is not None)
        for key, example in _EXAMPLES.items():
            if key not in written.labels():
                remedy = f'add {{"key": "{key}", "operator": "In", "values": ["{example}"]}}'
                self._fault(path, f"does not settle {key}", None, remedy)
        self._check_capacity_type(path, written)
        return written

    def _requirement(self, path: str, entry: Any) -> Requirement | None:
        fields = {key.lower(): value for key, value in entry.items()} if isinstance(entry, dict) else {}
        key, operator, values = fields.get("key"), fields.get("operator"), fields.get("values") or []
        if not isinstance(key, str) or not isinstance(operator, str) or not isinstance(values, list):
            self._fault(path, "is not a requirement", entry, 'write {"key": ..., "operator": "In", "values": [...]}')
            return None
        texts = [self._label_value(f"{path}.values[{at}]", each, "a") for at, each in enumerate(values)]
        try:
            return Requirement.of(key, operator, texts)
        except ValueError as error:
            self._fault(path, str(error), None, "")
            return None

    def _check_capacity_type(self, path: str, written: Requirements) -> None:
        found = written.labels().get(CAPACITY_TYPE)
        if found and found not in CAPACITY_TYPES:
            self._fault(path, "names an unknown capacity type", found, f"use one of {', '.join(CAPACITY_TYPES)}")
