"""masked_cross_entropy: chunks give the loss and the gradients that all logits at once give."""

import pytest
import torch

from mercury_kernels import IGNORED, masked_cross_entropy, reference_masked_cross_entropy


def problem(rows=13, width=16, vocab=50, dtype=torch.float32, device="cpu"):
    generator = torch.Generator().manual_seed(3)
    hidden = torch.randn(rows, width, generator=generator).to(device, dtype).requires_grad_()
    weight = torch.randn(vocab, width, generator=generator).to(device, dtype).requires_grad_()
    targets = torch.randint(vocab, (rows,), generator=generator).to(device)
    targets[1::3] = IGNORED
    return hidden, weight, targets


@pytest.mark.parametrize("chunk", [1, 7, 25, 50, 64])
@pytest.mark.parametrize("rows", [1, 3, 65])
def test_loss_and_gradients_equal_the_reference(chunk, rows):
    hidden, weight, targets = problem(rows)
    got = masked_cross_entropy(hidden, weight, targets, chunk)
    want = reference_masked_cross_entropy(hidden, weight, targets)
    torch.testing.assert_close(got, want)
    for a, b in zip(
        torch.autograd.grad(got * 3, (hidden, weight)), torch.autograd.grad(want * 3, (hidden, weight)), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_a_frozen_vocabulary_gets_no_gradient():
    hidden, weight, targets = problem()
    loss = masked_cross_entropy(hidden, weight.detach(), targets, 7)
    loss.backward()
    assert hidden.grad is not None and weight.grad is None
    assert hidden.grad[1].eq(0).all(), "an ignored row"


def test_frozen_states_get_no_gradient():
    hidden, weight, targets = problem()
    masked_cross_entropy(hidden.detach(), weight, targets, 7).backward()
    assert hidden.grad is None and weight.grad is not None


def test_rows_all_ignored_cost_nothing():
    hidden, weight, targets = problem()
    loss = masked_cross_entropy(hidden, weight, torch.full_like(targets, IGNORED), 7)
    loss.backward()
    assert loss.item() == 0
    assert hidden.grad.eq(0).all() and weight.grad.eq(0).all()


@pytest.mark.parametrize("target", [50, -1])
def test_a_target_outside_the_vocabulary_is_named(target):
    hidden, weight, targets = problem()
    targets[0] = target
    with pytest.raises(ValueError, match=f"target {target} is not in the vocabulary of 50"):
        masked_cross_entropy(hidden, weight, targets, 7)


def test_logits_far_from_zero_stay_finite():
    hidden, weight, targets = problem()
    got = masked_cross_entropy(hidden * 1e3, weight, targets, 7)
    torch.testing.assert_close(got, reference_masked_cross_entropy(hidden * 1e3, weight, targets))


@pytest.mark.gpu
def test_on_cuda_in_bfloat16_it_stays_near_the_reference():
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    hidden, weight, targets = problem(65, 64, 1000, torch.bfloat16, "cuda")
    got = masked_cross_entropy(hidden, weight, targets, 300)
    want = reference_masked_cross_entropy(hidden, weight, targets)
    torch.testing.assert_close(got, want, rtol=2e-2, atol=2e-2)
    got.backward()
    assert torch.isfinite(hidden.grad).all() and torch.isfinite(weight.grad).all()
