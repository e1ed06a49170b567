"""log_likelihood against scoring each text whole, from nothing."""

from pathlib import Path

import pytest

from mercury_model.denoiser import BlockDenoiser, perform
from mercury_model.draft import ModelInfo, Request, Scorer
from mercury_model.likelihood import log_likelihood
from mercury_model.local import LocalInfiller
from mercury_model.prompt import prompt
from tests.model.tiny import denoiser as tiny_denoiser

REQUEST = Request(prefix="def add(values):\n", suffix="\n    return total\n", document="file:///a.py#next")
TEXTS = ["    total = 0\n", "    total = sum(values)\n", "    total"]


@pytest.fixture(scope="module")
def denoiser(tmp_path_factory: pytest.TempPathFactory) -> BlockDenoiser:
    return tiny_denoiser(tmp_path_factory.mktemp("tokens"))


def whole(denoiser: BlockDenoiser, text: str) -> float:
    """The log probability of all of `text`, in a session of its own."""
    shown = prompt(denoiser.tokens, REQUEST)
    ids = denoiser.tokens.encode(shown.healed + text)
    session = denoiser.new_session()
    for ask in session.prefill(shown.ids[:-1]):
        perform(denoiser.transformer, [ask])
    return sum(session.score([shown.ids[-1], *ids[:-1]], ids).log_p)


def test_texts_differ_by_what_scoring_them_whole_says(denoiser: BlockDenoiser) -> None:
    found = log_likelihood(denoiser, REQUEST, TEXTS)
    expected = [whole(denoiser, text) for text in TEXTS]
    for here, there in zip(found, expected, strict=True):
        assert here - found[0] == pytest.approx(there - expected[0], abs=1e-3)


def test_equal_texts_and_none_need_no_pass_over_what_they_share(denoiser: BlockDenoiser) -> None:
    assert log_likelihood(denoiser, REQUEST, ["a = 1", "a = 1"]) == [0.0, 0.0]
    assert log_likelihood(denoiser, REQUEST, []) == []


def test_a_second_call_reuses_what_the_first_one_read(denoiser: BlockDenoiser) -> None:
    first = log_likelihood(denoiser, REQUEST, TEXTS)
    assert log_likelihood(denoiser, REQUEST, TEXTS) == pytest.approx(first, abs=1e-4)


def test_a_local_model_is_a_scorer(tmp_path: Path) -> None:
    model = LocalInfiller(tiny_denoiser(tmp_path), ModelInfo("tiny", "cpu", "block"))
    assert isinstance(model, Scorer)
    assert model.log_likelihood(REQUEST, ["x", "y"]) is not None
