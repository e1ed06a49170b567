"""The end probe inside a filling: where a middle ends, the same for every way of decoding it.

The probes here are random heads of a tiny model: they know nothing, but they are as exact as a trained one.
"""

from pathlib import Path

import pytest
import torch

from mercury_model.denoiser import BlockDenoiser
from mercury_model.draft import Draft, Request
from mercury_model.filling import Run
from mercury_model.graph import Steps
from mercury_model.infill import infill
from mercury_model.probe import N_SIGNS, Probe
from mercury_model.prompt import Prompt
from tests.model.tiny import CONFIG
from tests.model.tiny import denoiser as tiny_denoiser

PREFIX = "def add(values):\n    total = 0\n    for"
SUFFIX = "\n    return total\n"
RANK = 8


def random_probe(model: BlockDenoiser, seed: int, threshold: float) -> Probe:
    generator = torch.Generator().manual_seed(seed)
    h = CONFIG.hidden
    shapes = {"of_hidden": (RANK, h), "of_suffix": (RANK, 2 * h), "of_signs": (RANK, N_SIGNS), "out": (RANK,)}
    parts = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    parts |= {"bias": torch.zeros(RANK), "direct": torch.zeros(N_SIGNS), "out_bias": torch.zeros(())}
    return Probe(parts, model.transformer.weights.embed, model.tokens.end, threshold)


def last(denoiser: BlockDenoiser, policy: str, seed: int = 0, **fields: object) -> Draft:
    request = Request(PREFIX + "x" * seed, SUFFIX, policy=policy, max_tokens=40, **fields)  # pyright: ignore[reportArgumentType]
    return list(infill(denoiser, request))[-1]


@pytest.mark.parametrize("seed", range(12))
def test_every_way_of_decoding_ends_at_the_same_token(tmp_path: Path, seed: int) -> None:
    model = tiny_denoiser(tmp_path)
    whole = last(model, "greedy", seed)
    model.probe = random_probe(model, seed, 0.97)
    ended = last(model, "greedy", seed)
    assert whole.text.startswith(ended.text)
    for fields in ({}, {"guess": whole.text}, {"guess": whole.text[:9] + "nonsense"}):
        drafted = last(model, "check", seed, **fields)
        assert (drafted.text, drafted.ended) == (ended.text, ended.ended)
    model.steps = Steps(model.transformer, 512)
    assert last(model, "check", seed).text == ended.text
    assert last(model, "greedy", seed).text == ended.text


def test_the_random_probes_end_some_middles_and_not_others(tmp_path: Path) -> None:
    model = tiny_denoiser(tmp_path)
    ends: list[str] = []
    for seed in range(12):
        model.probe = random_probe(model, seed, 0.97)
        ends.append(last(model, "greedy", seed).ended)
    assert {"end", "length"} <= set(ends)


def test_a_certain_probe_ends_behind_the_first_token(tmp_path: Path) -> None:
    model = tiny_denoiser(tmp_path)
    whole = last(model, "greedy")
    model.probe = random_probe(model, 0, 0.0)
    for policy in ("greedy", "check", "threshold"):
        draft = last(model, policy)
        assert draft.ended == "end" and len(draft.text) == 1
    assert last(model, "check").text == whole.text[:1]


def test_what_of_the_last_token_is_the_suffix_is_not_written_twice(tmp_path: Path) -> None:
    model = tiny_denoiser(tmp_path)
    first = last(model, "greedy").text[0]
    model.probe = random_probe(model, 0, 0.0)
    request = Request(PREFIX, first + SUFFIX, policy="check", max_tokens=40)
    plain = tiny_denoiser(tmp_path)
    written = list(infill(plain, request))[-1].text[0]
    draft = list(infill(model, request))[-1]
    assert draft.ended == "end"
    assert draft.text == ("" if written == first else written)


def test_an_answer_in_a_conversation_is_not_watched(tmp_path: Path) -> None:
    model = tiny_denoiser(tmp_path)
    model.probe = random_probe(model, 0, 0.0)
    for messages in ((), (("user", "say something"),)):
        request = Request(PREFIX, SUFFIX, policy="check", messages=messages)
        assert (Run(model, request, model.new_session(), Prompt([1], "")).watch is None) == bool(messages)
