"""A small model trains to the same losses with the kernels as without them."""

import torch

from mercury_kernels import (
    masked_cross_entropy,
    reference_add_rms_norm,
    reference_masked_cross_entropy,
    reference_rms_norm,
    reference_rope,
    reference_swiglu,
    rope_table,
)

VOCAB, WIDTH, HEADS, STEPS, ROWS = 40, 32, 2, 4, 10


def losses(place, rms_norm, add_rms_norm, rope, swiglu, loss):
    parameters = [
        (place.randn(*shape, seed=seed) * scale).detach().requires_grad_()
        for seed, (shape, scale) in enumerate(
            [((VOCAB, WIDTH), 1), ((WIDTH,), 1), ((WIDTH, WIDTH), 0.2), ((WIDTH,), 1), ((48, WIDTH), 0.2),
             ((WIDTH, 24), 0.2), ((VOCAB, WIDTH), 0.2)]
        )
    ]  # fmt: skip
    embed, norm_1, mix, norm_2, gate_up, down, head = parameters
    ids = torch.randint(VOCAB, (ROWS,), generator=torch.Generator().manual_seed(9)).to(place.device)
    targets = ids.roll(-1)
    targets[::4] = -100
    optimiser = torch.optim.SGD(parameters, 0.3)
    seen = []
    for _ in range(STEPS):
        x = embed[ids]
        turned = rope((rms_norm(x, norm_1, 1e-6) @ mix).view(ROWS, HEADS, -1)).reshape(ROWS, WIDTH)
        h, x = add_rms_norm(turned, x, norm_2, 1e-6)
        value = loss(x + swiglu(h @ gate_up.T) @ down.T, head, targets)
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
        seen.append(value.item())
    return seen


def test_losses_are_the_same_with_and_without_the_kernels(place):
    from mercury_kernels.triton import norm, rope, swiglu

    table = rope_table(ROWS, WIDTH // HEADS, 1e4, place.device)
    positions = torch.arange(ROWS)
    ours = losses(
        place, norm.rms_norm, norm.add_rms_norm, lambda x: rope.rope(x, table), swiglu.swiglu,
        lambda h, w, t: masked_cross_entropy(h, w, t, 13),
    )  # fmt: skip
    plain = losses(
        place, reference_rms_norm, reference_add_rms_norm,
        lambda x: reference_rope(x.cpu(), positions, 1e4).to(place.device), reference_swiglu,
        reference_masked_cross_entropy,
    )  # fmt: skip
    place.close("losses", torch.tensor(ours), torch.tensor(plain))
    assert plain[-1] < plain[0]
