"""A long backlog in the queue of interruptions. No control plane takes part; it is here because it takes minutes."""

import pytest

from cloud.aws.account import living
from cloud.aws.interruption.backlog import work_off
from cloud.aws.server import moto_server

MESSAGES = 10_000


@pytest.fixture
def moto():
    with moto_server() as address:
        yield address


def test_of_ten_thousand_messages_with_junk_and_duplicates_no_warning_is_lost(moto, monkeypatch, caplog):
    caplog.set_level("ERROR")

    async def story(account):
        took = await work_off(account, MESSAGES, within=1800)
        calls = account.proxy.calls
        print(  # noqa: T201 - the figures are asked for
            f"\n{MESSAGES} messages in {took:.0f} s, {MESSAGES / took:.0f} a second;"
            f" {calls['ReceiveMessage']} receives, {calls['DeleteMessageBatch']} deletes"
        )
        assert calls["ReceiveMessage"] + calls["DeleteMessageBatch"] < MESSAGES

    living(story, moto, monkeypatch)
