"""Tokens: cut and numbered alike by the library and by Python."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ele_core.components.inputs import tokens as module
from ele_core.components.inputs.tokens import COMMON, Cutter, Tokens
from ele_core.errors import ConfigError

PATTERNS = [r"[\s\S]", r"\w+", r"\s*\w+", r"\d|[A-Z][a-z]?", r"(?:ab)+?|\s", r"[^a-c]{2,3}", r"a(?=b)|\.", r"\w*"]
LETTERS = st.characters(codec="utf-8", categories=["Lu", "Ll", "Nd", "Zs", "Po", "Sm"])
TEXTS = st.text(alphabet=st.one_of(st.sampled_from("abcABC 12.\n()"), LETTERS), min_size=1, max_size=12)


@pytest.fixture
def without_library(monkeypatch):
    monkeypatch.setattr(module, "installed", lambda _: False)


@pytest.mark.parametrize("pattern", PATTERNS)
@given(texts=st.lists(TEXTS, min_size=1, max_size=6))
def test_the_library_and_python_agree(pattern, texts):
    pytest.importorskip("tokenizers")
    theirs, known = Cutter(pattern), Tokens.learned(texts, pattern, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "installed", lambda _: False)
        ours, learned = Cutter(pattern), Tokens.learned(texts, pattern, 1)
    assert [theirs(text) for text in texts] == [ours(text) for text in texts]
    assert known.names == learned.names
    assert list(known.encode(texts)) == list(learned.encode(texts))
    assert known.as_json(7) == learned.as_json(7)


def test_the_file_is_the_one_that_the_library_writes():
    tokenizers = pytest.importorskip("tokenizers")
    tokens = Tokens.learned(['é "b" \\ \n', "b b"], r"\w+", 1)
    copy = tokenizers.Tokenizer.from_str(tokens.as_json(5))
    assert copy.to_str(pretty=True) == tokens.as_json(5)


def test_no_text_is_lost():
    assert "".join(Cutter(r"\d+")("a12bc3")) == "a12bc3"
    assert Cutter(r"\d+")("a12bc3") == ["a", "12", "bc", "3"]


@pytest.mark.usefixtures("without_library")
@pytest.mark.parametrize(
    "pattern", [r"\p{L}+", r"\h", r"^a", r"a$", r"[[:alpha:]]", r"(?i)a", r"a++", r"[a&&b]", r"\K"]
)
def test_a_pattern_that_python_reads_differently_needs_the_library(pattern):
    with pytest.raises(ConfigError, match=r"needs the package tokenizers.*\[tokenizers\]"):
        Cutter(pattern)


@pytest.mark.usefixtures("without_library")
@pytest.mark.parametrize("pattern", ["(a", "a)", "*"])
def test_what_is_no_regular_expression_is_refused(pattern):
    with pytest.raises((ValueError, ConfigError)):
        Cutter(pattern)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_common_patterns_are_recognised(pattern):
    assert COMMON.fullmatch(pattern)
