"""Laws of the drain, whatever is on the node."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from builders import NOON, node, pod, stamped
from dovetail.core.lifecycle.drain import grace_left, grace_of, left_alone, plan_drain, tier_of
from dovetail.model.do_not_disrupt import protection
from dovetail.model.snapshot import ClusterNode

DAEMON = [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u"}]
STATIC = [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]
FIRST = NOON.replace(hour=0)
LONG = 6 * 3600


@st.composite
def pods(draw):
    def one(number):
        metadata = {"name": f"p{number}", "ownerReferences": draw(st.sampled_from([[], DAEMON, STATIC]))}
        metadata["creationTimestamp"] = stamped(FIRST)
        protected = draw(st.sampled_from([None, "true", "30m", "4h", "soon", "false"]))
        if protected:
            metadata["annotations"] = {"karpenter.sh/do-not-disrupt": protected}
        if draw(st.booleans()):
            grace = draw(st.integers(0, LONG))
            ends = FIRST + timedelta(seconds=grace - draw(st.integers(0, LONG)))  # told to stop some time ago
            metadata |= {"deletionTimestamp": stamped(ends), "deletionGracePeriodSeconds": grace}
        spec = {
            "priorityClassName": draw(st.sampled_from(["", "system-node-critical"])),
            "terminationGracePeriodSeconds": draw(st.integers(0, LONG)),
            "tolerations": draw(st.sampled_from([[], [{"operator": "Exists"}]])),
        }
        return pod(f"p{number}", on="n", spec=spec, metadata=metadata)

    return tuple(one(number) for number in range(draw(st.integers(0, 6))))


def names(found):
    return {each.name for each in found}


DEADLINES = st.none() | st.integers(0, LONG).map(lambda seconds: FIRST + timedelta(seconds=seconds))
INSTANTS = st.integers(0, LONG).map(lambda seconds: FIRST + timedelta(seconds=seconds))


@given(pods(), INSTANTS, DEADLINES)
def test_only_the_first_tier_is_evicted_without_protected_terminating_or_skipped_pods(found, now, deadline):
    drain = plan_drain(ClusterNode(node("n"), None, found), now, deadline)
    for each in drain.evict:
        assert not protection(each, now).active
        assert not each.deleting
        assert tier_of(each) == min(map(tier_of, drain.waiting))
    assert not names(drain.evict) & names(drain.force)
    assert all(not left_alone(each, now) for each in drain.waiting)
    assert drain.force == () or deadline is not None


@given(pods(), INSTANTS, DEADLINES)
def test_nothing_changes_before_the_instant_the_plan_names(found, now, deadline):
    joined = ClusterNode(node("n"), None, found)
    drain = plan_drain(joined, now, deadline)
    if drain.changes_at is None:
        later = plan_drain(joined, now + timedelta(days=400), deadline)
    else:
        assert drain.changes_at > now
        later = plan_drain(joined, drain.changes_at - timedelta(milliseconds=2), deadline)
        if drain.changes_at - timedelta(milliseconds=2) < now:
            return
    assert later.evict == drain.evict
    assert later.waiting == drain.waiting
    assert names(drain.force) == names(later.force)


@given(st.integers(0, LONG), st.integers(0, LONG))
def test_a_forced_pod_has_all_its_grace_that_fits_and_ends_by_the_deadline(grace, seconds):
    web = pod("web", on="n", spec={"terminationGracePeriodSeconds": grace})
    deadline = FIRST + timedelta(seconds=seconds)
    joined = ClusterNode(node("n"), None, (web,))
    drain = plan_drain(joined, FIRST, deadline)
    at = FIRST if drain.force else drain.changes_at
    assert plan_drain(joined, at, deadline).force == (web,)
    granted = timedelta(seconds=grace_left(deadline, at))
    assert granted == max(min(grace_of(web), deadline - FIRST), timedelta(seconds=1))
    assert at + granted <= max(deadline, FIRST + timedelta(seconds=1), at + timedelta(seconds=1))
