"""Writes kubeconfig files, as JSON, which is YAML too."""

import json
from pathlib import Path

from e2e.controlplane.certificates import KeyPair


def write_kubeconfig(path: Path, url: str, ca_file: Path, user: dict[str, str]) -> Path:
    """One cluster, one user, one context, all of them current."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "e2e", "cluster": {"server": url, "certificate-authority": str(ca_file)}}],
        "users": [{"name": "e2e", "user": user}],
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "e2e", "namespace": "default"}}],
        "current-context": "e2e",
    }
    path.write_text(json.dumps(document, indent=2))
    path.chmod(0o600)
    return path


def certificate_user(pair: KeyPair) -> dict[str, str]:
    """A user who shows a client certificate."""
    return {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
