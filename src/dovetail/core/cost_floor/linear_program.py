"""Linear programs over nodes and pods, solved by HiGHS.

`LinearProgram` is the transport of fractions of pods to fractions of nodes, whose optimum is the cost floor. With
thousands of kinds of pods and offers, nearly every (kind, offer) pair is allowed and few are used, so it generates
columns: it is solved with some pairs, its dual prices give what a pod would cost on every offer, and pairs that are
cheaper than the pod's current cost are added. When there are none, the solution is optimal for all pairs. A later call
with other numbers of pods starts from the last solution.

`CoveringProgram` covers numbers of pods with whole nodes, of which fractions may be used: a column is a node with the
pods on it. Its columns are added by the caller (`core/columns`).

`undominated` reduces offers to those that can be part of an optimum.

HiGHS is an optional dependency; `WITHOUT_SOLVER` says whether it is missing.
"""

import numpy as np
import numpy.typing as npt

WITHOUT_SOLVER = ""
"""Why no floor can be computed in this installation; empty if it can."""
try:
    import highspy
except ModuleNotFoundError:
    WITHOUT_SOLVER = "the lower bound of the cost needs HiGHS: pip install 'dovetail[highs]'"

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.intp]
Counts = npt.NDArray[np.int64]

PAIRS_PER_ROUND = 8
"""The most pairs that one round adds for each kind of pods."""
EXACT = 1e-9
"""The tolerance, relative to the largest cost of a pod: smaller savings are ignored."""


class BoundUnavailable(Exception):
    """The LP solver is not installed, or found no optimal solution."""


def _new_solver() -> "highspy.Highs":
    if WITHOUT_SOLVER:
        raise BoundUnavailable(WITHOUT_SOLVER)
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)  # noqa: FBT003 - the signature of highspy
    solver.setOptionValue("presolve", "off")  # presolve would discard the basis of the last round
    solver.setOptionValue("simplex_strategy", 4)  # primal simplex: the basis stays feasible when columns are added
    return solver


def _solve(solver: "highspy.Highs") -> "highspy.HighsSolution":
    """The optimal solution."""
    solver.run()
    status = solver.getModelStatus()
    if status != highspy.HighsModelStatus.kOptimal:
        raise BoundUnavailable(f"the LP solver ended with {solver.modelStatusToString(status)}")
    return solver.getSolution()


def _add_rows(solver: "highspy.Highs", lower: Array, upper: Array) -> None:
    """Add rows without entries."""
    empty = np.zeros(0, dtype=np.int32)
    solver.addRows(len(lower), lower, upper, 0, np.zeros(len(lower), dtype=np.int32), empty, np.zeros(0))


def _bound_rows(solver: "highspy.Highs", lower: Array, upper: Array) -> None:
    """Replace the bounds of the first rows."""
    every = np.arange(len(lower), dtype=np.int32)
    if solver.changeRowsBounds(len(lower), every, lower, upper) != highspy.HighsStatus.kOk:  # type: ignore[attr-defined]
        raise BoundUnavailable(f"the LP solver rejects {lower} pods")


class LinearProgram:
    """Kinds of pods with their requests, offers with size and price, and which kinds each offer admits."""

    def __init__(self, needs: Array, sizes: Array, prices: Array, allowed: Mask) -> None:
        self.needs = needs
        self.sizes = sizes
        self.prices = prices
        self.allowed = allowed
        self._solver = self._program()
        self._chosen = self._initial_pairs()
        self._add_pairs(*np.nonzero(self._chosen))

    def least(self, counts: Array) -> float:
        """The least cost of these numbers of pods of each kind; some offer must admit each kind."""
        _bound_rows(self._solver, counts, counts)
        while True:
            current, on_offer = self._pod_costs()
            saved = current[:, None] - np.where(self.allowed & ~self._chosen, on_offer, np.inf)
            kinds, offers = _best_pairs(saved, EXACT * max(1.0, float(np.abs(current).max())))
            if not len(kinds):
                return float(self._solver.getInfo().objective_function_value)
            self._chosen[kinds, offers] = True
            self._add_pairs(kinds, offers)

    def _program(self) -> "highspy.Highs":
        """Rows: pods of each kind, and resources of each offer. Columns: the number of nodes of each offer."""
        solver = _new_solver()
        kinds, (offers, resources) = len(self.needs), self.sizes.shape
        rows, held = kinds + offers * resources, offers * resources
        _add_rows(solver, np.concatenate([np.zeros(kinds), np.full(held, -highspy.kHighsInf)]), np.zeros(rows))
        _add_columns(solver, self.prices, kinds + np.arange(held).reshape(offers, resources), -self.sizes)
        return solver

    def _initial_pairs(self) -> Mask:
        """The first pairs: for each kind, its cheapest offer, and its cheapest offer by each single resource."""
        every = np.arange(len(self.needs))
        chosen = np.zeros_like(self.allowed)
        unit = self.prices[:, None] / np.maximum(self.sizes, EXACT)
        shares = self.needs[:, None, :] * unit[None, :, :]
        for cost in (shares.max(axis=2), *np.moveaxis(shares, 2, 0)):
            chosen[every, np.where(self.allowed, cost, np.inf).argmin(axis=1)] = True
        return chosen

    def _add_pairs(self, kinds: Positions, offers: Positions) -> None:
        """Add columns for pods of these kinds on these offers."""
        resources = self.needs.shape[1]
        taken = len(self.needs) + offers[:, None] * resources + np.arange(resources)
        rows = np.concatenate([kinds[:, None], taken], axis=1)
        values = np.concatenate([np.ones((len(kinds), 1)), self.needs[kinds]], axis=1)
        _add_columns(self._solver, np.zeros(len(kinds)), rows, values)

    def _pod_costs(self) -> tuple[Array, Array]:
        """Solve; the current cost of a pod of each kind, and its cost on each offer, by dual prices."""
        dual = np.array(_solve(self._solver).row_dual)
        kinds = len(self.needs)
        return dual[:kinds], self.needs @ -dual[kinds:].reshape(self.sizes.shape).T


def _add_columns(solver: "highspy.Highs", costs: Array, rows: npt.NDArray[np.integer], values: Array) -> None:
    """Add columns; row i of `rows` and `values` has the entries of column i."""
    number, wide = rows.shape
    starts = np.arange(0, number * wide, wide, dtype=np.int32)
    _add_sparse_columns(solver, costs, starts, (rows.ravel(), values.ravel()))


def _add_sparse_columns(
    solver: "highspy.Highs", costs: Array, starts: Positions, entries: tuple[npt.NDArray[np.integer], Array]
) -> None:
    """Add columns whose entries, rows and values, begin at `starts`."""
    number, (rows, values) = len(costs), entries
    solver.addCols(
        number,
        costs,
        np.zeros(number),
        np.full(number, highspy.kHighsInf),
        len(rows),
        starts.astype(np.int32),
        rows.astype(np.int32),
        values,
    )


def _best_pairs(saved: Array, least: float) -> tuple[Positions, Positions]:
    """For each kind, the pairs that save most."""
    kinds = np.nonzero((saved > least).any(axis=1))[0]
    if not len(kinds):
        return kinds, kinds
    width = min(PAIRS_PER_ROUND, saved.shape[1])
    offers = np.argpartition(-saved[kinds], width - 1, axis=1)[:, :width].ravel()
    kinds = np.repeat(kinds, width)
    better = saved[kinds, offers] > least
    return kinds[better], offers[better]


class CoveringProgram:
    """Covers the pods of each class with nodes. A column is a node with some pods, at its price; fractions are used."""

    def __init__(self, classes: int) -> None:
        self._solver = _new_solver()
        _add_rows(self._solver, np.zeros(classes), np.full(classes, highspy.kHighsInf))

    def add(self, counts: Counts, prices: Array) -> None:
        """Add columns; row i of `counts` has the pods of each class in column i."""
        columns, classes = np.nonzero(counts)
        starts = np.searchsorted(columns, np.arange(len(counts)))
        _add_sparse_columns(self._solver, prices, starts, (classes, counts[columns, classes].astype(np.float64)))

    def cover(self, demand: Counts) -> tuple[Array, Array]:
        """The number of nodes of each column that cover these pods at the least cost, and the dual price of each class.

        Every class in demand needs a column with it.
        """
        _bound_rows(self._solver, demand.astype(np.float64), np.full(len(demand), highspy.kHighsInf))
        solution = _solve(self._solver)
        return np.array(solution.col_value), np.array(solution.row_dual)


def cheapest_alike(prices: Array, admitted: Mask, sizes: npt.NDArray[np.generic]) -> Positions:
    """Positions of the cheapest of offers that admit the same pods (a column of `admitted`) and have the same size."""
    _, admitting_of = np.unique(admitted, axis=1, return_inverse=True)
    _, size_of = np.unique(sizes, axis=0, return_inverse=True)
    order = np.lexsort((prices, size_of.ravel(), admitting_of.ravel()))
    alike = np.stack([admitting_of.ravel()[order], size_of.ravel()[order]])
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = (alike[:, 1:] != alike[:, :-1]).any(axis=0)
    return np.sort(order[first])


def undominated(allowed: Mask, worth: Array) -> Positions:
    """Positions of offers without those that another offer dominates.

    An offer dominates another if it admits all its pods and has at least as much of each resource per dollar (`worth`).
    """
    columns = np.ascontiguousarray(allowed.T)
    open_to = columns.sum(axis=1)
    kept: list[int] = []
    for position in np.lexsort((-worth.sum(axis=1), -open_to)):
        if not open_to[position]:
            break
        better = np.nonzero((worth[kept] >= worth[position]).all(axis=1))[0]
        if not any((columns[kept[other]] >= columns[position]).all() for other in better):
            kept.append(int(position))
    return np.array(sorted(kept), dtype=np.intp)
