"""Failed status checks and scheduled events of EC2."""

from datetime import timedelta

import pytest

from cloud.aws.account import NOON
from cloud.aws.proxy import ec2_reply
from dovetail.cloud.aws.clients import AwsError
from dovetail.cloud.aws.interruption.status_checks import UNAUTHORIZED_POLL_SECONDS, StatusChecks
from dovetail.ports.interruption import InterruptionKind

KIND = InterruptionKind


def stamped(when):
    return when.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def failing(instance, check, seconds, status="failed"):
    since = (
        f"<impairedSince>{stamped(NOON - timedelta(seconds=seconds))}</impairedSince>" if seconds is not None else ""
    )
    details = f"<details><item><name>reachability</name><status>{status}</status>{since}</item></details>"
    return f"<item><instanceId>{instance}</instanceId><{check}><status>impaired</status>{details}</{check}></item>"


def scheduled(instance, *events):
    items = "".join(
        f"<item><code>{code}</code><description>{text}</description><notBefore>{stamped(at)}</notBefore></item>"
        for code, text, at in events
    )
    return f"<item><instanceId>{instance}</instanceId><eventsSet>{items}</eventsSet></item>"


def telling(account, **items):
    """Responses of EC2 by filter."""

    def answer(asked):
        body = items.get(asked.given["Filter.1.Name"].replace("-", "_").replace(".", "_"), "")
        return ec2_reply("DescribeInstanceStatus", f"<instanceStatusSet>{body}</instanceStatusSet>")

    account.proxy.on("DescribeInstanceStatus", answer)
    return StatusChecks(account.parts.aws, account.clock, poll_seconds=0.0)


async def told(checks):
    found = [delivery.interruption for delivery in await checks.receive()]
    return [(each.kind, each.instance_ids, each.at) for each in found]


@pytest.mark.parametrize(
    ("filter_", "check", "kind"),
    [
        ("instance_status_status", "instanceStatus", KIND.INSTANCE_STATUS),
        ("system_status_status", "systemStatus", KIND.SYSTEM_STATUS),
    ],
)
def test_a_check_counts_once_it_has_failed_for_two_minutes(live, filter_, check, kind):
    async def story(account):
        items = [
            failing("i-1", check, 119),
            failing("i-2", check, 120),
            failing("i-3", check, 500, "passed"),
            failing("i-4", check, None),
        ]
        checks = telling(account, **{filter_: "".join(items)})
        assert await told(checks) == [(kind, ("i-2",), None)]
        account.clock.pass_(seconds=1)
        assert {ids for _, ids, _ in await told(checks)} == {("i-1",), ("i-2",)}

    live(story)


def test_events_to_come_count_at_once_and_those_that_are_over_do_not(live):
    async def story(account):
        soon, later = NOON + timedelta(days=1), NOON + timedelta(days=2)
        items = [
            scheduled("i-1", ("instance-retirement", "It goes", later), ("instance-reboot", "It restarts", soon)),
            scheduled("i-2", ("system-reboot", "[Completed] It restarted", soon)),
            scheduled("i-3", ("instance-stop", "[Canceled] It stays", soon)),
            scheduled("i-4", ("something-else", "Nobody knows", soon)),
        ]
        checks = telling(account, event_code="".join(items))
        assert await told(checks) == [(KIND.EVENT_STATUS, ("i-1",), soon)]

    live(story)


def test_nothing_wrong_costs_three_requests_whatever_there_is(live):
    async def story(account):
        checks = StatusChecks(account.parts.aws, account.clock, poll_seconds=0.0)
        assert await checks.receive() == []
        await checks.acknowledge([])
        assert account.proxy.calls == {"DescribeInstanceStatus": 3}

    live(story)


def test_after_a_denied_request_the_next_poll_is_an_hour_later(live, monkeypatch):
    async def story(account):
        checks, slept = StatusChecks(account.parts.aws, account.clock), []

        async def sleep(seconds):
            slept.append(seconds)

        monkeypatch.setattr("dovetail.cloud.aws.interruption.status_checks.asyncio.sleep", sleep)
        account.proxy.refuse("DescribeInstanceStatus", "UnauthorizedOperation", status=403, times=1)
        account.proxy.refuse("DescribeInstanceStatus", "RequestLimitExceeded", status=503, times=1)
        for _ in range(2):
            with pytest.raises(AwsError):
                await checks.receive()
        await checks.receive()
        await checks.receive()
        assert slept == [0.0, 0.0, UNAUTHORIZED_POLL_SECONDS, 60.0]

    live(story)
