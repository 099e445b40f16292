"""Draft fit: whether a draft accepts one more pod, and its options afterwards.

Checks, in this order: taints of the NodePool, host ports, topology rules by hostname, then for each pair of node
affinity alternative and volume alternative the remaining topology keys and the size. Domains are chosen for one key
after the other in alphabetical order, with backtracking: a domain that leaves no instance type for the remaining keys
is given up for the next one.

The result is a `DraftStep`, which the caller applies, or the reason in words; nothing is changed here. If neither
options nor ports change, the draft's witness type is checked first; most pods need no more than that.
"""

import msgspec

from dovetail.core.scheduling.draft import Draft, DraftStep
from dovetail.core.scheduling.draft_options import DraftOptions
from dovetail.core.scheduling.existing_nodes import hard
from dovetail.core.scheduling.host_ports import HostPort, conflict
from dovetail.core.scheduling.instance_type_table import InstanceTypeTable
from dovetail.core.scheduling.pod_shapes import PodShape
from dovetail.core.scheduling.preferences import PreferenceLevel
from dovetail.core.scheduling.topology_domains import AllowedDomains
from dovetail.model.taints import untolerated

TOO_SMALL = "no instance type has enough resources"
TOO_FEW = "minValues requirement is not met"


class Attempt(msgspec.Struct, frozen=True, eq=False):
    """One attempt to place a pod: its preference level, and the topology domains that are allowed now."""

    shape: PodShape
    level: PreferenceLevel
    allowance: AllowedDomains


class _Search(msgspec.Struct, frozen=True, eq=False):
    """The search for a step of one draft: the total and the host ports it would have to hold."""

    draft: Draft
    total: list[int]
    ports: tuple[HostPort, ...]
    allowance: AllowedDomains

    def choose(self, options: DraftOptions, keys: tuple[str, ...]) -> DraftStep | str:
        """Choose domains for each of the keys in turn, then find a type that holds the total."""
        if not keys:
            return fit(self.draft, options, self.total, self.ports)
        found = self.allowance.domains(keys[0], self._possible(options, keys[0]))
        if found is None:
            return self.choose(options, keys[1:])
        allowed, one = found
        problem = f"no domain of {keys[0]} satisfies its topology rules"
        tries = [[domain] for domain in allowed] if one else [sorted(allowed)] * bool(allowed)
        for domains in tries:
            outcome = self.choose(options.within(keys[0], domains), keys[1:])
            if isinstance(outcome, DraftStep):
                return outcome
            problem = outcome
        return problem

    def _possible(self, options: DraftOptions, key: str) -> list[str]:
        """The domains in which some type that holds the total has an offering."""
        known = options.domains(key)
        if len(known) == 1:
            return list(known)
        return [each for each in known if self._holds(options.within(key, (each,)))]

    def _holds(self, options: DraftOptions) -> bool:
        return options.find(self.total, self.draft.below, self.ports) >= 0


def fit(draft: Draft, options: DraftOptions, total: list[int], ports: tuple[HostPort, ...]) -> DraftStep | str:
    """The step to these options if some type holds the total, or the reason why none does."""
    plain = not options.diversity and not ports
    if plain and options is draft.options and draft.pods and options.holds(draft.witness, total):
        return DraftStep(options, total, draft.witness)
    if options.diversity and not options.left(total, draft.below, ports):
        return TOO_FEW
    witness = options.find(total, draft.below, ports)
    return DraftStep(options, total, witness) if witness >= 0 else TOO_SMALL


def never_accepts(options: DraftOptions, attempt: Attempt) -> bool:
    """Whether no draft with these options can accept the pod, because their only domain of a key is not allowed."""
    keys = attempt.allowance.rules.keys
    if not keys:
        return False
    for alternative in attempt.level.alternatives:
        narrowed = options.narrow(alternative)
        for place in attempt.shape.volumes.on_drafts:
            reached = narrowed if isinstance(narrowed, str) else narrowed.narrow(place)
            if isinstance(reached, str):
                continue
            only = reached.domains(keys[0])
            found = attempt.allowance.domains(keys[0], only) if len(only) == 1 else None
            if found is None or found[0]:
                return False
    return True


class DraftFit:
    """Checks whether drafts accept pods; caches which NodePools have untolerated taints."""

    def __init__(self) -> None:
        self._tolerated: dict[tuple[PreferenceLevel, InstanceTypeTable], str] = {}

    def clear(self) -> None:
        """Forget the NodePools, because they have new tables."""
        self._tolerated.clear()

    def step(self, draft: Draft, attempt: Attempt) -> DraftStep | str:
        """The draft with one more pod, or why it does not accept it."""
        shape, allowance = attempt.shape, attempt.allowance
        problem = self.untolerated(attempt.level, draft.options.type_table)
        if not problem and shape.ports and conflict(shape.ports, draft.ports) is not None:
            problem = "didn't have free ports for the requested pod ports"
        if not problem and not allowance.rules.unconstrained:
            problem = allowance.reason_on_host(draft.number)
        if problem:
            return problem
        total = list(draft.total)
        for column, amount in shape.need:
            total[column] += amount
        return self._first_alternative(_Search(draft, total, draft.ports + shape.ports, allowance), attempt)

    def untolerated(self, level: PreferenceLevel, type_table: InstanceTypeTable) -> str:
        """The first taint of a NodePool that the pod does not tolerate, in words, or empty."""
        key = (level, type_table)
        known = self._tolerated.get(key)
        if known is None:
            taints = type_table.template.taints
            taint = untolerated(level.tolerations, hard(taints) if level.soft else taints)
            known = self._tolerated[key] = "" if taint is None else f"did not tolerate taint {taint}"
        return known

    def _first_alternative(self, search: _Search, attempt: Attempt) -> DraftStep | str:
        problem = "its node affinity contradicts itself"
        keys = attempt.allowance.rules.keys
        for alternative in attempt.level.alternatives:
            narrowed = search.draft.options.narrow(alternative)
            if isinstance(narrowed, str):
                problem = narrowed
                continue
            for place in attempt.shape.volumes.on_drafts:
                reached = narrowed.narrow(place)
                outcome = reached if isinstance(reached, str) else search.choose(reached, keys)
                if isinstance(outcome, DraftStep):
                    return outcome
                problem = outcome
        return problem
