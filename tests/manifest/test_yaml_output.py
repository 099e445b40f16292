"""YAML that Dovetail writes is read back as the same values, by kubectl's rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.manifest.safe_yaml import read_yaml
from dovetail.manifest.yaml_output import to_yaml
from manifest.test_yaml_scalars import ROWS

NUMBER_LIKE = st.text(alphabet="0123456789_.eE+-xobXOByYnN~", max_size=8)


@given(NUMBER_LIKE | st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=8))
def test_text_stays_text(text):
    assert read_yaml(to_yaml({"a": text, "b": [text], text: 1})).content == {"a": text, "b": [text], text: 1}


def test_the_texts_of_the_vectors_stay_text():
    for row in ROWS:
        assert read_yaml(to_yaml({"a": row["text"]})).content == {"a": row["text"]}


@pytest.mark.parametrize("value", [1, -5, 1.5, 1e30, True, False, None, [], {}, [1, {"a": None}]])
def test_other_values_stay_what_they_are(value):
    assert read_yaml(to_yaml({"a": value})).content == {"a": value}
