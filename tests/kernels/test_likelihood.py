"""log_likelihood equals its reference over odd shapes and tile borders."""

import pytest
import torch

from mercury_kernels import Dense, tiles
from mercury_kernels.likelihood import log_likelihood, reference_log_likelihood


@pytest.mark.parametrize("rows", [1, 3, 63])
@pytest.mark.parametrize("tile", [1, 100, 999, 1000, 4096])
def test_equals_the_reference(rows: int, tile: int) -> None:
    g = torch.Generator().manual_seed(rows)
    hidden, weight = torch.randn(rows, 48, generator=g), torch.randn(1000, 48, generator=g)
    targets = torch.randint(0, 1000, (rows,), generator=g)
    targets[0] = 999
    if tile == 1:
        weight, targets = weight[:8], targets % 8
    found = log_likelihood(hidden, tiles(Dense(weight), tile), targets)
    torch.testing.assert_close(found, reference_log_likelihood(hidden, weight, targets), rtol=1e-5, atol=1e-5)
