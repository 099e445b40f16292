"""Many messages, some malformed and some duplicated: every interrupted instance is handled."""

from cloud.aws.interruption.backlog import work_off


def test_of_a_backlog_with_junk_and_duplicates_no_warning_is_lost(live):
    async def story(account):
        await work_off(account, 100, within=120)
        calls = account.proxy.calls
        assert calls["ReceiveMessage"] + calls["DeleteMessageBatch"] < 100

    live(story)
