"""unmask: Triton and the CPU path against the reference, greedy and sampled, with cuts and bans."""

import pytest
import torch

from mercury_kernels import Dense, Proposal, int8_weight, quantize_int8, reference_unmask, tiles, unmask

SAMPLING = [
    {"temperature": 0.8},
    {"temperature": 0.7, "top_p": 0.8},
    {"temperature": 1.5, "top_k": 5},
    {"temperature": 1.0, "top_p": 0.9, "top_k": 3},
    {"temperature": 1.0, "top_k": 1},
    {"temperature": 1.0, "top_p": 0.0},
]


def rows_and_vocabulary(place, rows, width, vocab):
    """Logits of a few nats: neither flat nor decided."""
    return place.randn(rows, width), place.randn(vocab, width, seed=1) * (3 / width**0.5)


def same(place, got, want):
    assert torch.equal(got.token, want.token), f"token: {got.token.tolist()}, expected {want.token.tolist()}"
    for name in ("confidence", "entropy", "margin"):
        place.close(name, getattr(got, name), getattr(want, name))


def run(hidden, vocabulary, **options):
    from mercury_kernels.triton import unmask as kernels

    return Proposal(*kernels.unmask(hidden, vocabulary, **options))


@pytest.mark.parametrize(
    ("rows", "width", "vocab"),
    [(1, 72, 700), (3, 64, 129), (33, 40, 300), (65, 24, 65), pytest.param(1000, 16, 150, marks=pytest.mark.slow)],
)
def test_equals_its_reference(place, rows, width, vocab):
    hidden, weight = rows_and_vocabulary(place, rows, width, vocab)
    same(place, run(hidden, [(weight, None)]), reference_unmask(hidden, weight))


@pytest.mark.parametrize("separate", [False, True])
def test_tiles_give_what_the_whole_matrix_gives(place, separate):
    hidden, weight = rows_and_vocabulary(place, 3, 40, 500)
    parts = [(part.clone() if separate else part, None) for part in weight.split(150)]
    same(place, run(hidden, parts), run(hidden, [(weight, None)]))


@pytest.mark.parametrize("tile", [1000, 130])
def test_eight_bit_vocabularies_equal_the_reference_of_what_they_stand_for(place, tile):
    hidden, weight = rows_and_vocabulary(place, 5, 40, 300)
    whole, scale = quantize_int8(weight, 127)
    parts = list(zip(whole.split(tile), scale.split(tile), strict=True))
    same(place, run(hidden, parts), reference_unmask(hidden.float(), whole.float() * scale[:, None]))


@pytest.mark.parametrize("options", SAMPLING, ids=str)
def test_samples_what_the_reference_samples(place, options):
    hidden, weight = rows_and_vocabulary(place, 5, 32, 200)
    hidden, weight = hidden.float(), weight.float()
    want = reference_unmask(hidden, weight, seed=2**40 + 3, **options)
    same(place, run(hidden, [(weight, None)], seed=2**40 + 3, **options), want)


@pytest.mark.parametrize("options", [{}, {"temperature": 0.9}, {"temperature": 0.9, "top_p": 0.7}], ids=str)
def test_banned_ids_have_no_probability(place, options):
    hidden, weight = rows_and_vocabulary(place, 3, 32, 200)
    hidden, weight = hidden.float(), weight.float()
    banned = reference_unmask(hidden, weight).token[:, None].repeat(1, 2)
    banned[:, 1] = torch.tensor([-1, 199, 0], device=place.device)
    want = reference_unmask(hidden, weight, banned=banned, **options)
    same(place, run(hidden, [(weight, None)], banned=banned, **options), want)
    assert not (want.token[:, None] == banned).any()


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_where_all_but_one_are_banned_that_one_is_certain(place, temperature):
    hidden, weight = rows_and_vocabulary(place, 2, 16, 140)
    left = [137, 3]
    banned = torch.tensor([[i for i in range(140) if i != one] for one in left], device=place.device)
    got = run(hidden, [(weight, None)], banned=banned, temperature=temperature)
    assert got.token.tolist() == left
    place.close("confidence", got.confidence, torch.ones_like(got.confidence))
    place.close("margin", got.margin, torch.ones_like(got.margin))
    place.close("entropy", got.entropy, torch.zeros_like(got.entropy))


@pytest.mark.parametrize("twins", [(3, 5), (2, 190), (0, 299)])
def test_of_equal_logits_the_lowest_id_wins(place, twins):
    hidden, weight = rows_and_vocabulary(place, 2, 32, 300)
    weight[list(twins)] = hidden[0] * 0.5
    got = run(hidden[:1], [(weight, None)])
    assert got.token.tolist() == [twins[0]]
    place.close("margin", got.margin, torch.zeros_like(got.margin))


def test_a_row_does_not_depend_on_the_others(place):
    hidden, weight = rows_and_vocabulary(place, 40, 40, 300)
    together = run(hidden, [(weight, None)])
    for i in (0, 17, 39):
        alone = run(hidden[i : i + 1], [(weight, None)])
        for name in ("token", "confidence", "entropy", "margin"):
            assert torch.equal(getattr(together, name)[i : i + 1], getattr(alone, name)), name


def test_no_rows_give_no_proposals(place):
    hidden, weight = rows_and_vocabulary(place, 0, 32, 50)
    for options in ({}, {"temperature": 1.0}, {"temperature": 1.0, "top_p": 0.5}):
        assert len(run(hidden, [(weight, None)], **options)) == 0
        assert len(unmask(hidden.cpu().float(), (Dense(weight.cpu().float()),), **options)) == 0


@pytest.mark.parametrize("options", [{}, *SAMPLING], ids=str)
@pytest.mark.parametrize("tile", [1000, 37])
def test_the_cpu_path_equals_the_reference(options, tile):
    generator = torch.Generator().manual_seed(5)
    hidden, weight = torch.randn(9, 32, generator=generator), torch.randn(200, 32, generator=generator) / 2
    banned = torch.tensor([[0, -1]] * 8 + [[199, 3]])
    got = unmask(hidden, tiles(Dense(weight), tile), banned=banned, seed=11, **options)
    want = reference_unmask(hidden, weight, banned=banned, seed=11, **options)
    assert torch.equal(got.token, want.token)
    for name in ("confidence", "entropy", "margin"):
        torch.testing.assert_close(getattr(got, name), getattr(want, name), rtol=1e-4, atol=1e-5)


def test_the_cpu_path_bans_a_whole_tile_and_breaks_ties_low():
    weight = torch.randn(60, 16, generator=torch.Generator().manual_seed(5))
    weight[[25, 47]] = 1.0
    hidden = torch.ones(1, 16)
    got = unmask(hidden, tiles(Dense(weight), 20), banned=torch.arange(20)[None])
    assert got.token.item() == 25
    assert got.margin.item() == 0
    assert 0 < got.confidence.item() <= 0.5


def test_eight_bits_on_the_cpu_choose_what_the_dense_matrix_chooses():
    generator = torch.Generator().manual_seed(6)
    hidden, weight = torch.randn(8, 64, generator=generator), torch.randn(120, 64, generator=generator) / 2
    whole, scale = quantize_int8(weight)
    vocabulary = [int8_weight(w, s) for w, s in zip(whole.split(50), scale.split(50), strict=True)]
    got, want = unmask(hidden, vocabulary), reference_unmask(hidden, weight)
    sure = want.margin > 0.1
    assert sure.any() and torch.equal(got.token[sure], want.token[sure])
