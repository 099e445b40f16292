"""Properties over random documents: the validator never crashes, and accepted documents can be read."""

from copy import deepcopy

from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.manifest.codec import to_plain
from dovetail.manifest.documents import read_documents
from dovetail.manifest.validation import faults_of, read, scope_of, validate_nodepool
from dovetail.model.nodepool import NodePool
from manifest.corpus import CASES
from manifest.seed_examples import EXAMPLES

JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(["Never", "10%", "@daily", "In"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def places(value, path=()):
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from places(each, (*path, key))


@st.composite
def mutants(draw):
    document = deepcopy(draw(st.sampled_from([case.document for case in [*EXAMPLES, *CASES]])))
    for _ in range(draw(st.integers(1, 3))):
        *path, last = draw(st.sampled_from([place for place in places(document) if place]))
        holder = document
        for key in path:
            holder = holder[key]
        if draw(st.booleans()):
            holder[last] = draw(JUNK)
        else:
            del holder[last]
    return document


@given(mutants())
@settings(max_examples=300, deadline=None)
def test_no_mutation_of_a_manifest_breaks_the_validator(document):
    report = faults_of(document)
    assert all(fault.path and fault.problem for fault in report.faults)
    scope = scope_of(str(document.get("apiVersion")), str(document.get("kind")))
    if report.valid and scope is not None:
        kind, value = read(document)
        again = read({**to_plain(kind, value), "apiVersion": document["apiVersion"], "status": document.get("status")})
        assert again == (kind, value)
        if isinstance(value, NodePool):
            assert validate_nodepool(value) == ()


@given(JUNK)
@settings(deadline=None)
def test_nothing_at_all_breaks_the_validator(document):
    faults_of(document)


@given(st.text(max_size=60) | st.text(alphabet="-:{}[]&*!|>'\"%@` \n\tab0$<", max_size=60))
@settings(max_examples=300, deadline=None)
def test_no_text_breaks_the_reader(text):
    for document in read_documents(text, "any"):
        assert document.line >= 1
        faults_of(document.content)
