"""Amounts in the units the scheduler counts in: thousandths of cpu, whole units of everything else, rounded up."""

from collections.abc import Iterable

from dovetail.model.pod import Pod, PodSpec, spec_requests
from dovetail.model.resources import CPU, Resources

Amounts = dict[str, int]


def in_units(resources: Resources) -> Amounts:
    return {name: amount.milli if name == CPU else amount.units for name, amount in resources.items()}


def requested(spec: PodSpec) -> Amounts:
    """What one pod asks for. Each pod is rounded up on its own, then pods are added."""
    return in_units(spec_requests(spec))


def total(many: Iterable[Amounts]) -> Amounts:
    result: Amounts = {}
    for amounts in many:
        for name, amount in amounts.items():
            result[name] = result.get(name, 0) + amount
    return result


def less(a: Amounts, b: Amounts) -> Amounts:
    return {name: a.get(name, 0) - b.get(name, 0) for name in a | b}


def at_least_zero(amounts: Amounts) -> Amounts:
    return {name: max(0, amount) for name, amount in amounts.items()}


def requested_by(pods: Iterable[Pod]) -> Amounts:
    return total(requested(pod.spec) for pod in pods)


def fits(needed: Amounts, there: Amounts) -> bool:
    return all(amount <= there.get(name, 0) for name, amount in needed.items())
