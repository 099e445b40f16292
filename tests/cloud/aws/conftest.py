"""One moto server for all stories about AWS."""

import pytest

from cloud.aws.server import moto_server


@pytest.fixture(scope="session")
def moto():
    with moto_server() as address:
        yield address


@pytest.fixture
def live(moto, monkeypatch):
    """Run a story on an account of its own."""
    from cloud.aws.account import living

    return lambda story, **settings: living(story, moto, monkeypatch, **settings)
