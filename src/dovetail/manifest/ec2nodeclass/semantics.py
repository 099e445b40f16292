"""Faults of an EC2NodeClass that a schema cannot express: kubelet settings, and duplicate network interfaces.

The schema allows any kubelet settings, because they are passed on to the kubelet. Those that determine the capacity of
nodes are checked here; the others are left to the kubelet.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from dovetail.manifest.ec2nodeclass.rules import RESERVABLE, SIGNALS
from dovetail.manifest.schema_check import join
from dovetail.model.kube_object import Fault
from dovetail.model.resources import Quantity

Plain = Mapping[str, Any]
_HIGH, _LOW = "imageGCHighThresholdPercent", "imageGCLowThresholdPercent"


def ec2_class_faults(document: Plain) -> Iterator[Fault]:
    """Faults of an EC2NodeClass beyond its schema."""
    spec = _mapping(document.get("spec"))
    yield from kubelet_faults(_mapping(spec.get("kubelet")), "spec.kubelet")
    seen = set()
    interfaces = spec.get("networkInterfaces")
    for index, each in enumerate(interfaces if isinstance(interfaces, list) else ()):
        place = (_mapping(each).get("networkCardIndex", 0), _mapping(each).get("deviceIndex", 0))
        if repr(place) in seen:
            yield Fault(
                f"spec.networkInterfaces[{index}]",
                "has the card and device index of an earlier interface",
                each,
                "remove one",
            )
        seen.add(repr(place))


def kubelet_faults(kubelet: Plain, path: str) -> Iterator[Fault]:
    """Faults of the kubelet settings that determine the capacity of nodes."""
    for name in ("maxPods", "podsPerCore"):
        value = kubelet.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
            yield Fault(f"{path}.{name}", "is not a count of pods", value, "write a whole number of at least 0")
    for name in ("kubeReserved", "systemReserved"):
        yield from _amounts(kubelet.get(name), f"{path}.{name}", RESERVABLE, percent=False)
    for name in ("evictionHard", "evictionSoft"):
        yield from _amounts(kubelet.get(name), f"{path}.{name}", SIGNALS, percent=True)
    soft, grace = _mapping(kubelet.get("evictionSoft")), _mapping(kubelet.get("evictionSoftGracePeriod"))
    for name in sorted(map(str, soft.keys() ^ grace.keys())):
        place, other = ("evictionSoft", "evictionSoftGracePeriod")[:: 1 if name in soft else -1]
        yield Fault(
            join(f"{path}.{place}", name), f"has no entry in {other}", None, "every signal needs an entry in both"
        )
    high, low = kubelet.get(_HIGH), kubelet.get(_LOW)
    if isinstance(high, int) and isinstance(low, int) and high <= low:
        yield Fault(f"{path}.{_HIGH}", f"must be greater than {_LOW}", high, f"raise it, or lower {_LOW}")


def _amounts(amounts: Any, path: str, names: tuple[str, ...], *, percent: bool) -> Iterator[Fault]:
    if amounts is not None and not isinstance(amounts, dict):
        yield Fault(path, "must be a mapping", amounts, f"names are {', '.join(names)}")
    for name, amount in _mapping(amounts).items():
        here = join(path, str(name))
        if name not in names:
            yield Fault(here, "is not a name that the kubelet supports here", name, f"choose from {', '.join(names)}")
        problem = _amount_problem(amount, percent=percent)
        if problem:
            yield Fault(here, problem, amount, "write 500Mi or 5%" if percent else "write an amount such as 500Mi")


def _amount_problem(amount: Any, *, percent: bool) -> str:
    if not isinstance(amount, str):
        return "must be text"
    if amount.endswith("%"):
        return "" if percent and _is_percentage(amount) else "is not a percentage from 0% to 100%"
    try:
        return "must not be negative" if Quantity.parse(amount).nano < 0 else ""
    except ValueError as error:
        return str(error)


def _is_percentage(text: str) -> bool:
    try:
        return 0 <= float(text[:-1]) <= 100
    except ValueError:
        return False


def _mapping(value: Any) -> Plain:
    return value if isinstance(value, dict) else {}
