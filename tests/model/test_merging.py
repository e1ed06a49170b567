"""The adapter merged into the weights: drafts as before, checks untouched."""

import pytest
import torch
from torch import Tensor

from mercury_kernels import int8_weight, quantize_int8
from mercury_kernels.linear import Dense, Int8, int8_parts
from mercury_model import merging
from mercury_model.adapter import Site
from mercury_model.merging import merged
from mercury_model.transformer import Rows, Transformer
from tests.model import tiny

IDS = torch.tensor([7, *[tiny.MASK] * 7])


def passes(model: Transformer, *, adapted: bool) -> Tensor:
    """Hidden states of a block behind twenty tokens of context."""
    cache = model.new_cache()
    model.forward([Rows(torch.arange(20), cache, 0)])
    return model.forward([Rows(IDS, cache, 20, bidirectional=adapted, adapted=adapted)])[0]


def test_in_32_bits_a_draft_is_the_same_up_to_rounding() -> None:
    model = tiny.transformer("float32")
    expected = passes(model, adapted=True)
    model.drafting = merged(model)
    torch.testing.assert_close(passes(model, adapted=True), expected, rtol=1e-4, atol=1e-4)


def test_in_8_bits_rounding_changes_a_draft_much_less_than_the_adapter_does() -> None:
    model = tiny.transformer("int8")
    expected = passes(model, adapted=True)
    bare = passes(Transformer(model.config, model.weights, None), adapted=True)
    model.drafting = merged(model)
    model.adapter = None
    assert (passes(model, adapted=True) - expected).norm() < 0.3 * (bare - expected).norm()


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_checks_run_on_the_base_bit_for_bit_beside_drafts_of_others_too(dtype: str) -> None:
    model = tiny.transformer(dtype)
    alone = passes(model, adapted=False)
    model.drafting = merged(model)
    assert torch.equal(passes(model, adapted=False), alone)
    one, other = model.new_cache(), model.new_cache()
    for cache in (one, other):
        model.forward([Rows(torch.arange(20), cache, 0)])
    draft, check, draft_again = model.forward(
        [Rows(IDS, one, 20, True, True), Rows(IDS, other, 20), Rows(IDS, one, 20, True, True)]
    )
    assert torch.equal(check, alone) and torch.equal(draft, draft_again)
    assert torch.equal(draft, passes(model, adapted=True))


def test_without_an_adapter_nothing_is_copied() -> None:
    model = tiny.transformer()
    bare = Transformer(model.config, model.weights, None)
    assert merged(bare) is bare


def test_a_weight_gives_back_what_it_was_made_of() -> None:
    parts = quantize_int8(torch.randn(48, 32, generator=torch.Generator().manual_seed(0)))
    for weight in (int8_weight(*parts), Int8(48, None, None, *parts)):
        for found, given in zip(int8_parts(weight), parts, strict=True):
            assert torch.equal(found, given)


def test_a_matrix_is_summed_piece_by_piece_as_it_is_whole() -> None:
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(700, 32, generator=generator)
    ups = tuple(torch.randn(4, n, generator=generator) * 0.1 for n in (300, 200, 200))
    site = Site(torch.randn(12, 32, generator=generator), ups)
    whole = matrix + torch.cat([up.T @ down for up, down in zip(ups, site.down.split(4), strict=True)])
    dense = merging.summed(Dense(matrix), site)
    assert isinstance(dense, Dense)
    torch.testing.assert_close(dense.weight, whole)
    parts = quantize_int8(matrix)
    summed = merging.summed(int8_weight(*parts), site)
    assert isinstance(summed, Int8)
    found, scale = int8_parts(summed)
    expected = whole - matrix + parts[0].float() * parts[1][:, None]
    assert (found.float() * scale[:, None] - expected).abs().amax() <= 0.51 * scale.amax()
