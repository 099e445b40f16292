"""One moto server for all stories about AWS, which forgets each of them when it is over."""

import pytest

from cloud.aws.server import forget, moto_server


@pytest.fixture(scope="session")
def server():
    with moto_server(bare=True) as address:
        yield address


@pytest.fixture
def moto(server):
    """Tags are looked for among all there are: what earlier stories left would cost more than the story."""
    yield server
    forget(server)


@pytest.fixture
def live(moto, monkeypatch):
    """Run a story on an account of its own."""
    from cloud.aws.account import living

    return lambda story, **settings: living(story, moto, monkeypatch, **settings)


@pytest.fixture
def ready(live):
    """Run a story on an account with a class that is ready."""

    def told(story, node_class=None, narrow=None, **given):
        async def main(account):
            given_spec = node_class or {}
            account.proxy.narrow = narrow or account.proxy.narrow
            await account.create(account.node_class(**given_spec))
            await account.kept()
            return await story(account)

        return live(main, **given)

    return told
