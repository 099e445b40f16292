"""`python packaging/krew/build.py --uri URL [--output DIR]` writes the krew manifest and the archive that it installs.

The archive has the plugin script and the license. It is the same for all platforms with a POSIX shell, and building it
again gives the same bytes, so the checksum in the manifest can be verified from the sources.
"""

import argparse
import gzip
import hashlib
import io
import json
import tarfile
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
NAME = "kubectl-dovetail.tar.gz"


def version() -> str:
    """The version of the project."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])


def archive() -> bytes:
    """The archive, without timestamps and owners."""
    script = (HERE / "kubectl-dovetail").read_text().replace("@VERSION@", version()).encode()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, mode, content in (
            ("kubectl-dovetail", 0o755, script),
            ("LICENSE", 0o644, (ROOT / "LICENSE").read_bytes()),
        ):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    return gzip.compress(packed.getvalue(), mtime=0)


def manifest(uri: str) -> str:
    """The manifest, with the checksum of the archive. It is JSON, which is YAML."""
    platform = {
        "selector": {"matchExpressions": [{"key": "os", "operator": "In", "values": ["darwin", "linux"]}]},
        "uri": uri,
        "sha256": hashlib.sha256(archive()).hexdigest(),
        "bin": "kubectl-dovetail",
        "files": [{"from": "kubectl-dovetail", "to": "."}, {"from": "LICENSE", "to": "."}],
    }
    spec = {
        "version": f"v{version()}",
        "shortDescription": "Explain and preview node consolidation and drift",
        "description": "Shows what a node lifecycle manager would do with each node, and why not:"
        " plan, explain, budgets, history, top. Works with the NodePools of Karpenter.\n",
        "caveats": "Needs Python 3.11 or newer, and dovetail, uv or pipx on the PATH.\n",
        "platforms": [platform],
    }
    document = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "dovetail"},
        "spec": spec,
    }
    return json.dumps(document, indent=2) + "\n"


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--uri", required=True, help="where the archive will be downloaded from")
    parser.add_argument("--output", type=Path, default=ROOT / "dist")
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    (given.output / NAME).write_bytes(archive())
    (given.output / "dovetail.yaml").write_text(manifest(given.uri))


if __name__ == "__main__":
    main()
