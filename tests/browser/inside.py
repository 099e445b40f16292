"""The page served by the test's own process, over snapshots it makes."""

from contextlib import contextmanager
from types import SimpleNamespace

from dovetail.cli.dashboard_documents import documents
from dovetail.core.disruption.context import Gates
from dovetail.dashboard.access import Access
from dovetail.dashboard.answers import Terms
from dovetail.dashboard.board import Board
from dovetail.dashboard.page import Page


@contextmanager
def page_served(snapshot=None, *, ledger=None, token="", port=0):
    """A page, its board to publish on, and its address."""
    board = Board()
    if snapshot is not None:
        board.publish(snapshot)
    access = Access("127.0.0.1", token)
    page = Page(board=board, documents=documents(ledger), terms=Terms(Gates()), access=access, port=port)
    with page.served() as address:
        yield SimpleNamespace(board=board, address=address)
