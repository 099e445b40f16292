from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from dovetail.observe.events import Rate, TokenBucket

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


@given(st.lists(st.integers(0, 2000), max_size=60), st.integers(1, 5), st.integers(1, 10))
def test_a_bucket_never_gives_more_than_burst_and_rate_allow(gaps, per_second, burst):
    bucket, now, given_away = TokenBucket(Rate(per_second=per_second, burst=burst)), NOON, 0
    for gap in gaps:
        now += timedelta(milliseconds=gap)
        given_away += bucket.take(now)
    assert given_away <= burst + per_second * (now - NOON).total_seconds() + 1e-6


def test_a_bucket_refills_with_time():
    bucket = TokenBucket(Rate(per_second=1, burst=1))
    assert [bucket.take(NOON + timedelta(milliseconds=at)) for at in (0, 500, 1000, 1500)] == [True, False, True, False]
