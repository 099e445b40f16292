"""What our CRDs accept, Karpenter can decode; and they decide as Karpenter's own CRDs do.

Thousands of seeded mutants of manifests go through our schema. What it accepts is decoded by a small Go program with
Karpenter's own types: an object that fails there would stop Karpenter's list and watch, and with them all of Karpenter.
Many of the mutants also go to the API server, once under our CRDs and once under Karpenter's, which are installed in
other API groups. `DOVETAIL_E2E_MUTANTS` sends more of them.
"""

import json
import os
import subprocess
from collections import Counter
from itertools import islice

import pytest
import yaml

from dovetail.manifest.schema import KINDS, Scope, schema_of
from dovetail.manifest.schema_check import as_stored, examine, pruned, with_defaults
from e2e.components import build
from e2e.conftest import require_binaries
from e2e.controlplane.api import eventually
from e2e.controlplane.slate import wipe
from e2e.running import install_crds
from manifest.karpenter_crds import facts_of
from manifest.mutants import mutants, scope_at
from manifest.test_karpenter_crds import ADDITIONS

SEED, MANY = 1, 5000
SOME = int(os.environ.get("DOVETAIL_E2E_MUTANTS", "1200"))  # for the API server
STORED = {kind.name: kind.version for kind in KINDS.values()}
GROUP = "karpenter.example.com"  # of Karpenter's CRDs, beside ours
LOOSER = ("consolidateAfter: Required value", 'Unsupported value: "Expired"', "volumeSize: Invalid value")
"""Why Karpenter's CRDs refuse what ours accept, although it has only fields of Karpenter."""


@pytest.fixture(scope="module")
def decode():
    """A function that gives the error of Karpenter's types for each object, or an empty text."""
    require_binaries(build.DECODER)
    program = str(build.binaries_dir(build.DECODER) / "decode")

    def errors(objects):
        lines = "".join(json.dumps(each) + "\n" for each in objects)
        done = subprocess.run([program], input=lines, check=True, capture_output=True, text=True)
        answers = done.stdout.splitlines()
        assert len(answers) == len(objects)
        return ["" if answer == "ok" else answer for answer in answers]

    return errors


@pytest.fixture(scope="module")
def server(control_plane, decode):
    """The API server with our CRDs, and with those of Karpenter's AWS and kwok providers in another group."""
    wipe(control_plane.api)
    install_crds(control_plane)
    theirs = list(karpenters_crds())
    try:
        for crd in theirs:
            control_plane.kubectl("apply", "--server-side", "-f", "-", input=json.dumps(crd))
        control_plane.kubectl("wait", "--for=condition=Established", "--timeout=120s", "crd", "--all")
        for scope in KINDS:
            for group in (KINDS[scope].group, *([GROUP] if STORED[scope.kind] == scope.version else [])):
                path = f"/apis/{group}/{scope.version}/{KINDS[scope].plural}"
                eventually(lambda path=path: control_plane.api.get(path).ok, f"{path} is served")
        yield control_plane
    finally:
        names = [crd["metadata"]["name"] for crd in theirs]
        control_plane.kubectl("delete", "crd", "--ignore-not-found", "--wait=true", *names)


def karpenters_crds():
    """The CRDs of Karpenter's AWS provider, and the node class of its kwok provider, in the group `GROUP`."""
    aws, kwok = (build.binaries_dir(recipe) / "crds" for recipe in (build.DECODER, build.KARPENTER))
    files = [*(aws.glob("karpenter*.yaml")), *(kwok.glob("karpenter.kwok*.yaml"))]
    for crd in (yaml.safe_load(file.read_text()) for file in sorted(files)):
        if crd["spec"]["names"]["kind"] in ADDITIONS:
            crd["metadata"]["name"] = f"{crd['spec']['names']['plural']}.{GROUP}"
            crd["spec"]["group"] = GROUP
            crd["spec"]["names"].pop("shortNames", None)
            yield crd


def stored(document):
    """The object as a client of the stored version sees it, or None where our schema refuses it."""
    scope = scope_at(document)
    schema = schema_of(scope)
    filled = with_defaults(schema, {**pruned(schema, document), "metadata": document["metadata"]})
    return None if examine(schema, filled).faults else as_stored(scope, filled)


def test_karpenter_decodes_every_mutant_that_our_crds_accept(decode):
    accepted = [each for each in map(stored, mutants(SEED, MANY)) if each is not None]
    failures = {error: each for each, error in zip(accepted, decode(accepted), strict=True) if error}
    assert failures == {}
    counts = Counter(map(scope_at, accepted))
    assert set(counts) == set(KINDS)
    assert len(accepted) > MANY // 10, counts


def test_the_decoder_refuses_what_karpenter_refuses(decode):
    """The program does decode: each of these would stop Karpenter, and each is refused by our CRDs."""
    poison = [
        {"spec": {"disruption": {"budgets": [{"nodes": 5}]}}},
        {"spec": {"disruption": {"consolidateAfter": "99999999999h"}}},
        {"spec": {"limits": {"cpu": "1e1.5"}}},
        {"spec": {"template": {"spec": {"taints": [{"timeAdded": "2024-01-01t00:00:00z"}]}}}},
    ]
    assert all(decode([{"kind": "NodePool", **each} for each in poison]))


def send(api, document, group):
    """The API server's answer to a document, which it does not store."""
    kind = KINDS[scope_at(document)]
    version = document["apiVersion"].rpartition("/")[2]
    body = {**document, "apiVersion": f"{group}/{version}"}
    body.pop("status", None)  # ignored on creation
    return api.post(f"/apis/{group}/{version}/{kind.plural}?dryRun=All", body)


def test_the_server_decides_as_our_schema_and_karpenter_decodes_its_answers(server, decode):
    answers = []
    for document in islice(mutants(SEED, MANY), SOME):
        reply = send(server.api, document, KINDS[scope_at(document)].group)
        expected = stored(
            {**document, "status": {}} if document["kind"] != "KWOKNodeClass" else _without_status(document)
        )
        assert reply.ok == (expected is not None), (document, reply.body.get("message"))
        if reply.ok:
            answers.append(as_stored(scope_at(document), reply.body))
            assert answers[-1].get("spec") == expected.get("spec"), document
    assert [error for error in decode(answers) if error] == []


def _without_status(document):
    return {name: value for name, value in document.items() if name != "status"}


def test_our_crds_decide_as_karpenters(server, decode):
    """They accept whatever Karpenter's accept, unless its types cannot decode it; and nothing else but additions."""
    compared = Counter()
    for document in map(_without_status, islice(mutants(SEED + 1, MANY), SOME)):
        if STORED[document["kind"]] != scope_at(document).version or uses_additions(document):
            continue
        ours = send(server.api, document, KINDS[scope_at(document)].group)
        theirs = send(server.api, document, GROUP)
        compared[ours.ok, theirs.ok] += 1
        if theirs.ok and not ours.ok:
            [error] = decode([theirs.body])
            assert error or _is_listed(document), (document, ours.body["message"])
        elif ours.ok and not theirs.ok:
            assert any(each in theirs.body["message"] for each in LOOSER), (document, theirs.body["message"])
        elif ours.ok:
            assert with_default_wait(ours.body.get("spec")) == with_default_wait(theirs.body.get("spec"))
    assert compared[True, True] > 50, compared
    assert compared[False, False] > 50, compared


def uses_additions(document):
    """Whether it has a field that Karpenter's CRDs do not have."""
    kind = document["kind"]
    open_fields = {"EC2NodeClass": ("spec.kubelet", "spec.cpuOptions")}.get(kind, ())
    known = facts_of(schema_of(Scope(kind, STORED[kind])))
    for path in _paths(document):
        if path.startswith(ADDITIONS[kind]):
            return True
        if path.startswith(open_fields) and path not in known and not path.endswith("[]") and path[:-2] not in known:
            return True
    return False


def _paths(value, path=""):
    yield path
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _paths(each, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for each in value:
            yield from _paths(each, f"{path}[]")


def _is_listed(document):
    """Whether ours refuse it for a listed reason: a rule that only the kwok provider's CRD has, or no spec at all."""
    requirements = json.dumps(document.get("spec", {}))
    return "karpenter.kwok.sh" in requirements or (document["kind"] == "EC2NodeClass" and "spec" not in document)


def with_default_wait(spec):
    """A spec without what only our CRDs fill in: the delay of a written disruption block."""
    if not isinstance(spec, dict) or not isinstance(spec.get("disruption"), dict):
        return spec
    return {**spec, "disruption": {"consolidateAfter": "0s", **spec["disruption"]}}
