"""The order in which drafts are tried, and which are skipped."""

import pytest

from dovetail.core.scheduling.placement import DraftQueue

NARROW, WIDE = object(), object()


def queue(*drafts):
    """Drafts by position, each as (pods, options)."""
    made = DraftQueue()
    for position, (pods, options) in enumerate(drafts):
        made.put(position, pods, options)
    return made


def order(drafts, refused=(), hopeless=lambda _: False):
    return list(drafts.each(sum(1 << position for position in refused), hopeless))


def test_drafts_with_the_fewest_pods_come_first_and_then_the_oldest():
    assert order(queue((2, WIDE), (1, WIDE), (1, NARROW), (0, WIDE))) == [3, 1, 2, 0]


def test_refused_drafts_are_skipped():
    assert order(queue((1, WIDE), (1, WIDE), (1, WIDE)), refused=[0, 2]) == [1]


def test_drafts_whose_options_never_accept_are_skipped_together():
    drafts = queue((1, WIDE), (1, NARROW), (2, NARROW), (2, WIDE))
    assert order(drafts, hopeless=lambda options: options is NARROW) == [0, 3]


def test_options_are_checked_once_and_only_for_drafts_that_are_not_refused():
    asked = []
    drafts = queue((1, WIDE), (1, WIDE), (2, WIDE), (3, NARROW))
    order(drafts, refused=[3], hopeless=asked.append)
    assert asked == [WIDE]


def test_a_draft_that_took_a_pod_moves_back():
    drafts = queue((1, WIDE), (1, WIDE))
    drafts.take(0, 1, WIDE)
    drafts.put(0, 2, NARROW)
    assert order(drafts) == [1, 0]


def test_a_draft_is_taken_from_where_it_was_put():
    with pytest.raises(KeyError):
        queue((1, WIDE)).take(0, 2, WIDE)


def test_thousands_of_drafts_keep_their_order():
    assert order(queue(*[(1, WIDE)] * 5_000), refused=range(4_997)) == [4_997, 4_998, 4_999]
