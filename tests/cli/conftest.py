"""What tests of several commands share."""

import pytest

from dovetail.manifest.snapshot_file import snapshot_bytes


@pytest.fixture
def kept(tmp_path):
    """Write a snapshot to a file; returns its path."""

    def to_file(found):
        path = tmp_path / "cluster.json"
        path.write_bytes(snapshot_bytes(found))
        return path

    return to_file
