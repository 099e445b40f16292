"""Stories about queues need no cluster in the account."""

import pytest

from cloud.aws import account


@pytest.fixture
def live(moto, monkeypatch):
    """Run a story on an account with nothing in it."""

    async def nothing(_account):
        pass

    monkeypatch.setattr(account, "_furnish", nothing)
    return lambda story, **settings: account.living(story, moto, monkeypatch, **settings)
