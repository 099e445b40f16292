"""The linear programme under the floor: fractions of machines at the least price, every pod somewhere it may be.

With thousands of kinds of pods and offers nearly every pair of them is allowed and few are used. So pairs are asked in
as they are needed: the programme is solved with some, its prices say what a pod would pay on every machine, and pairs
that would be cheaper than what it pays now come in. When there are none, the answer is that of the whole programme.
Asked again for other numbers of pods, it begins where it ended.
"""

import highspy
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.intp]

PAIRS_A_ROUND = 8
"""At most so many new pairs a kind of pod and round."""
EXACT = 1e-9
"""Of what a pod pays: less than this is no saving."""


class BoundUnavailable(Exception):
    """The solver could not answer."""


class Programme:
    """Kinds of pods (what one needs) and offers (size, price), and which may be on which."""

    def __init__(self, needs: Array, sizes: Array, prices: Array, allowed: Mask) -> None:
        self.needs = needs
        self.sizes = sizes
        self.prices = prices
        self.allowed = allowed
        self._solver = self._begin()
        self._chosen = self._likely()
        self._admit(*np.nonzero(self._chosen))

    def least(self, counts: Array) -> float:
        """What so many pods of each kind cost at least; every kind must be allowed on some offer."""
        every = np.arange(len(counts), dtype=np.int32)
        taken = self._solver.changeRowsBounds(len(counts), every, counts, counts)  # type: ignore[attr-defined]
        if taken != highspy.HighsStatus.kOk:
            raise BoundUnavailable(f"the solver does not take {counts} pods")
        while True:
            pays, asks = self._prices()
            saved = pays[:, None] - np.where(self.allowed & ~self._chosen, asks, np.inf)
            kinds, offers = _best(saved, EXACT * max(1.0, float(np.abs(pays).max())))
            if not len(kinds):
                return float(self._solver.getInfo().objective_function_value)
            self._chosen[kinds, offers] = True
            self._admit(kinds, offers)

    def _begin(self) -> highspy.Highs:
        """Rows for kinds (all placed) and for what each offer has; columns for how much of each offer is bought."""
        solver = highspy.Highs()  # type: ignore[no-untyped-call]
        solver.setOptionValue("output_flag", False)  # noqa: FBT003 - its own way
        solver.setOptionValue("presolve", "off")  # would throw away what the round before found out
        solver.setOptionValue("simplex_strategy", 4)  # primal: stays feasible when columns come in
        kinds, (offers, resources) = len(self.needs), self.sizes.shape
        rows, held = kinds + offers * resources, offers * resources
        solver.addRows(
            rows,
            np.concatenate([np.zeros(kinds), np.full(held, -highspy.kHighsInf)]),
            np.zeros(rows),
            0,
            np.zeros(rows, dtype=np.int32),
            np.zeros(0, dtype=np.int32),
            np.zeros(0),
        )
        _add(solver, self.prices, kinds + np.arange(held).reshape(offers, resources), -self.sizes)
        return solver

    def _likely(self) -> Mask:
        """To begin with: where each kind is cheapest alone, and where if one resource were all that costs."""
        every = np.arange(len(self.needs))
        chosen = np.zeros_like(self.allowed)
        unit = self.prices[:, None] / np.maximum(self.sizes, EXACT)
        shares = self.needs[:, None, :] * unit[None, :, :]
        for cost in (shares.max(axis=2), *np.moveaxis(shares, 2, 0)):
            chosen[every, np.where(self.allowed, cost, np.inf).argmin(axis=1)] = True
        return chosen

    def _admit(self, kinds: Positions, offers: Positions) -> None:
        """Pods of these kinds may be on these offers: each is placed once and takes what it needs."""
        resources = self.needs.shape[1]
        taken = len(self.needs) + offers[:, None] * resources + np.arange(resources)
        rows = np.concatenate([kinds[:, None], taken], axis=1)
        values = np.concatenate([np.ones((len(kinds), 1)), self.needs[kinds]], axis=1)
        _add(self._solver, np.zeros(len(kinds)), rows, values)

    def _prices(self) -> tuple[Array, Array]:
        """What a pod of each kind pays now, and what it would pay on each offer."""
        solver = self._solver
        solver.run()
        status = solver.getModelStatus()
        if status != highspy.HighsModelStatus.kOptimal:
            raise BoundUnavailable(f"the solver answered {solver.modelStatusToString(status)}")
        dual = np.array(solver.getSolution().row_dual)
        kinds = len(self.needs)
        return dual[:kinds], self.needs @ -dual[kinds:].reshape(self.sizes.shape).T


def _add(solver: highspy.Highs, costs: Array, rows: npt.NDArray[np.integer], values: Array) -> None:
    """New columns, each with as many entries as `rows` is wide."""
    number, wide = rows.shape
    solver.addCols(
        number,
        costs,
        np.zeros(number),
        np.full(number, highspy.kHighsInf),
        number * wide,
        np.arange(0, number * wide, wide, dtype=np.int32),
        rows.ravel().astype(np.int32),
        values.ravel(),
    )


def _best(saved: Array, least: float) -> tuple[Positions, Positions]:
    """The pairs that save most, some for each kind."""
    kinds = np.nonzero((saved > least).any(axis=1))[0]
    if not len(kinds):
        return kinds, kinds
    width = min(PAIRS_A_ROUND, saved.shape[1])
    offers = np.argpartition(-saved[kinds], width - 1, axis=1)[:, :width].ravel()
    kinds = np.repeat(kinds, width)
    better = saved[kinds, offers] > least
    return kinds[better], offers[better]
