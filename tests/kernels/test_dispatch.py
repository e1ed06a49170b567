"""The public functions give the same through Triton as through torch: the caller never knows which one ran."""

import sys

import pytest
import torch

import mercury_kernels as mk


def attention(place):
    q, keys, values = place.randn(5, 4, 64), place.randn(2, 512, 64, seed=1), place.randn(2, 512, 64, seed=2)
    return mk.block_attention(q, keys, values, mk.attention_bias(torch.arange(60, 65, device=place.device), 2))


def whole_sequences(place):
    q, k, v = (place.randn(2, 20, n, 64, seed=n) for n in (4, 2, 2))
    return mk.bidirectional_attention(q, k, v, torch.tensor([20, 3], device=place.device))


def eight_bits(place):
    weight, scale = (t.to(place.device) for t in mk.quantize_int8(torch.ones(9, 64) * torch.arange(9)[:, None]))
    return mk.linear_w8(place.randn(3, 64), mk.Int8(9, place.randn(9, seed=2), None, weight, scale)) / 64


def proposals(place):
    # float32 on every device: logits rounded to bfloat16 would choose other tokens
    vocabulary = mk.tiles(mk.Dense(place.randn(300, 32, seed=1).float() / 2), 128)
    got = mk.unmask(place.randn(4, 32).float(), vocabulary, temperature=0.7, top_k=9, seed=5)
    return torch.stack([got.token.float(), got.confidence, got.entropy, got.margin])


CALLS = {
    "rms_norm": lambda p: mk.rms_norm(p.randn(5, 64), p.randn(64, seed=1), 1e-6),
    "add_rms_norm": lambda p: torch.cat(mk.add_rms_norm(p.randn(5, 64), p.randn(5, 64, seed=2), p.randn(64), 1e-6)),
    "rope": lambda p: mk.rope(p.randn(5, 3, 64), mk.rope_table(5, 64, 1e4, p.device)),
    "swiglu": lambda p: mk.swiglu(p.randn(5, 64)),
    "linear": lambda p: mk.linear(p.randn(5, 64), mk.Dense(p.randn(9, 64, seed=1), p.randn(9))) / 8,
    "linear_w8": eight_bits,
    "block_attention": attention,
    "bidirectional_attention": whole_sequences,
    "unmask": proposals,
}


def choose(monkeypatch, answer):
    for name in ("norm", "rope", "swiglu", "linear", "attention", "unmask"):
        monkeypatch.setattr(sys.modules[f"mercury_kernels.{name}"], "use_triton", lambda _: answer)


@pytest.mark.parametrize("name", CALLS)
def test_triton_and_torch_answer_alike(place, monkeypatch, name):
    choose(monkeypatch, False)
    want = CALLS[name](place)
    choose(monkeypatch, True)
    place.close(name, CALLS[name](place), want)


@pytest.mark.parametrize("name", ["linear", "block_attention", "bidirectional_attention", "linear_w8"])
def test_functions_without_a_backward_kernel_still_give_gradients(place, monkeypatch, name):
    choose(monkeypatch, True)
    made = []
    randn = type(place).randn

    def tracked(self, *shape, seed=0):
        made.append(randn(self, *shape, seed=seed).requires_grad_())
        return made[-1]

    monkeypatch.setattr(type(place), "randn", tracked)
    CALLS[name](place).sum().backward()
    assert all(x.grad is not None and x.grad.abs().sum() > 0 for x in made)
