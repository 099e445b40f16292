"""Nodes that column generation chooses: what they hold, and what they cost."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.core.columns import generation
from dovetail.core.columns.generation import cheapest_nodes
from dovetail.core.columns.knapsack import Knapsacks
from dovetail.core.columns.packing import Packing


def packing(needs, demand, offers, refused=()):
    """Offers are (price, *sizes); `refused` has pairs of class and offer."""
    needs = np.array(needs, dtype=np.int64)
    sizes = np.array([each[1:] for each in offers], dtype=np.int64)
    allowed = (sizes[None, :, :] >= needs[:, None, :]).all(axis=2)
    for pair in refused:
        allowed[pair] = False
    prices = np.array([float(each[0]) for each in offers])
    return Packing(needs, np.array(demand, dtype=np.int64), sizes, prices, allowed)


def chosen(problem):
    nothing = np.zeros((0, len(problem.demand)), dtype=np.int64)
    return [tuple(map(int, each)) for each in cheapest_nodes(problem, nothing)]


def cost(problem, columns):
    return float(problem.prices_of(np.array(columns, dtype=np.int64)).sum())


def test_pods_that_complement_each_other_share_nodes():
    problem = packing([(3, 1), (1, 3)], [4, 4], [(1.0, 4, 4)])
    assert chosen(problem) == [(1, 1)] * 4


def test_the_offer_with_the_lowest_price_for_these_pods_is_chosen():
    """By the price of a core the large offer is cheapest, but a pod of 3 wastes a fourth of it."""
    problem = packing([(3,)], [2], [(1.0, 3), (1.1, 4)])
    assert cost(problem, chosen(problem)) == pytest.approx(2.0)


def test_a_class_is_only_on_offers_that_admit_it():
    problem = packing([(1,), (1,)], [2, 2], [(1.0, 4), (5.0, 4)], refused=[(1, 0)])
    columns = chosen(problem)
    assert cost(problem, columns) == pytest.approx(5.0), "all on the one offer that admits both"
    assert np.isfinite(problem.prices_of(np.array(columns))).all()


def test_a_dominated_offer_is_left_out_whatever_it_has_per_dollar():
    reduced = packing([(1,)], [1], [(1.0, 4), (1.0, 3), (0.5, 1)]).undominated()
    assert reduced.prices.tolist() == [1.0, 0.5]


def test_work_is_limited_by_counts(monkeypatch):
    problem = packing([(3, 1), (1, 3)], [4, 4], [(1.0, 4, 4)])
    monkeypatch.setattr(generation, "MOST_CELLS", 0)
    assert sorted(chosen(problem)) == [(0, 1)] * 4 + [(1, 0)] * 4, "no column is generated"
    monkeypatch.setattr(generation, "STEPS", 0)
    assert chosen(problem) == [], "pods that are left are not covered"


needs = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=3)
offers = st.lists(st.tuples(st.integers(1, 9), st.integers(4, 9), st.integers(4, 9)), min_size=1, max_size=3)


@settings(max_examples=60, deadline=None)
@given(needs, st.data(), offers)
def test_chosen_nodes_hold_each_pod_once_at_a_cost_near_the_least(classes, data, offered):
    demand = data.draw(st.lists(st.integers(1, 3), min_size=len(classes), max_size=len(classes)))
    problem = packing(classes, demand, offered)
    columns = chosen(problem)
    assert np.array(columns).sum(axis=0).tolist() == demand
    assert chosen(problem) == columns
    least = cheapest_by_trying(problem)
    assert least - 1e-9 <= cost(problem, columns) <= 2 * least


def cheapest_by_trying(problem):
    """The least cost of covering the demand, by trying all columns in all ways."""
    known = {(0,) * len(problem.demand): 0.0}
    every = [each for each in product(*(range(most + 1) for most in problem.demand)) if any(each)]
    prices = dict(zip(every, problem.prices_of(np.array(every, dtype=np.int64)), strict=True))
    for covered in sorted(every, key=sum):
        known[covered] = min(
            prices[column] + known[tuple(a - b for a, b in zip(covered, column, strict=True))]
            for column in every
            if all(b <= a for a, b in zip(covered, column, strict=True))
        )
    return known[tuple(problem.demand)]


@settings(max_examples=60, deadline=None)
@given(needs, offers, st.lists(st.floats(0, 10), min_size=3, max_size=3))
def test_knapsacks_hold_no_more_than_fits_and_is_wanted(classes, offered, values):
    problem = packing(classes, [2] * len(classes), offered)
    knapsacks = Knapsacks(problem)
    columns = knapsacks.fill(np.array(values[: len(classes)]), problem.demand)
    assert (columns <= problem.demand).all()
    assert (columns @ problem.needs <= problem.sizes[knapsacks.offer_of]).all()
