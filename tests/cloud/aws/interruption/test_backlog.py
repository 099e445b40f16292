"""Many messages, some of them junk and some of them twice: every instance that was warned of is acted upon."""

from cloud.aws.interruption.backlog import work_off


def test_of_a_backlog_with_junk_and_duplicates_no_warning_is_lost(live):
    async def story(account):
        await work_off(account, 100, within=120)
        calls = account.proxy.calls
        assert calls["ReceiveMessage"] + calls["DeleteMessageBatch"] < 100

    live(story)
