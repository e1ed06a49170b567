"""One pass: rows do not depend on their neighbours, the cache is exact, the adapter is gated."""

import pytest
import torch

from mercury_model.transformer import Rows, Transformer
from tests.model.tiny import transformer

IDS = torch.arange(3, 3 + 70) * 7 % 255


@pytest.fixture(scope="module", params=["int8", "float32"])
def model(request: pytest.FixtureRequest) -> Transformer:
    return transformer(request.param)


def one_by_one(model: Transformer, ids: torch.Tensor) -> torch.Tensor:
    cache = model.new_cache()
    return torch.cat([model.forward([Rows(ids[i : i + 1], cache, i)])[0] for i in range(len(ids))])


@pytest.mark.parametrize("step", [2, 7, 8, 70])
def test_int8_rows_are_bit_equal_however_many_run_together(step: int) -> None:
    model = transformer("int8")
    cache = model.new_cache()
    together = [model.forward([Rows(IDS[i : i + step], cache, i)])[0] for i in range(0, len(IDS), step)]
    assert torch.equal(torch.cat(together), one_by_one(model, IDS))


def test_rows_agree_with_one_at_a_time(model: Transformer) -> None:
    whole = model.forward([Rows(IDS, model.new_cache(), 0)])[0]
    torch.testing.assert_close(whole, one_by_one(model, IDS), rtol=1e-4, atol=1e-4)


def test_a_batch_gives_each_sequence_what_it_gets_alone() -> None:
    model = transformer("int8")
    lengths = (1, 5, 30)
    alone = [model.forward([Rows(IDS[:n], model.new_cache(), 0)])[0] for n in lengths]
    batched = model.forward([Rows(IDS[:n], model.new_cache(), 0) for n in lengths])
    for a, b in zip(alone, batched, strict=True):
        assert torch.equal(a, b)


def test_causal_rows_do_not_see_what_follows(model: Transformer) -> None:
    changed = IDS.clone()
    changed[40:] = 1
    a = model.forward([Rows(IDS, model.new_cache(), 0)])[0]
    b = model.forward([Rows(changed, model.new_cache(), 0)])[0]
    torch.testing.assert_close(a[:40], b[:40])
    assert not torch.allclose(a[40:], b[40:])


def test_bidirectional_rows_see_the_whole_block(model: Transformer) -> None:
    cache = model.new_cache()
    model.forward([Rows(IDS[:20], cache, 0)])
    changed = IDS[20:28].clone()
    changed[7] = 1
    a = model.forward([Rows(IDS[20:28], cache, 20, bidirectional=True)])[0]
    b = model.forward([Rows(changed, cache, 20, bidirectional=True)])[0]
    assert not torch.allclose(a[0], b[0])


def test_the_adapter_acts_on_its_rows_only() -> None:
    model = transformer("int8")
    assert model.adapter is not None
    bare = Transformer(model.config, model.weights)
    caches = [model.new_cache() for _ in range(2)]
    plain, drafted = model.forward([Rows(IDS[:9], caches[0], 0), Rows(IDS[:9], caches[1], 0, adapted=True)])
    base = bare.forward([Rows(IDS[:9], bare.new_cache(), 0)])[0]
    assert torch.equal(plain, base)
    assert not torch.allclose(drafted, base)


def test_the_mask_token_means_nothing_outside_adapted_rows() -> None:
    model = transformer("int8")
    assert model.adapter is not None
    ids = torch.tensor([5, model.adapter.mask_id])
    base = Transformer(model.config, model.weights).forward([Rows(ids, model.new_cache(), 0)])[0]
    assert torch.equal(model.forward([Rows(ids, model.new_cache(), 0)])[0], base)


def test_a_draft_behind_the_cache_leaves_the_context_as_it_was() -> None:
    model = transformer("int8")
    cache = model.new_cache()
    model.forward([Rows(IDS[:30], cache, 0)])
    before = model.forward([Rows(IDS[30:31], cache, 30)])[0]
    model.forward([Rows(IDS[40:48], cache, 30, bidirectional=True, adapted=True)])
    assert torch.equal(model.forward([Rows(IDS[30:31], cache, 30)])[0], before)


def test_the_cache_grows_past_its_step() -> None:
    model = transformer("int8")
    ids = torch.arange(1100) % 250
    cache = model.new_cache()
    whole = model.forward([Rows(ids, model.new_cache(), 0)])[0]
    parts = [model.forward([Rows(ids[i : i + 300], cache, i)])[0] for i in range(0, 1100, 300)]
    assert cache.keys.shape[2] == 1536
    torch.testing.assert_close(torch.cat(parts), whole, rtol=1e-4, atol=1e-4)
