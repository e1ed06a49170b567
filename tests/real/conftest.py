"""The embedded model, loaded once for all tests of this folder.

Its weights are fetched by `mercury-lsp model pull`, which `make test` does first; without them these tests are
skipped, with that command as the reason.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
import torch

from mercury_model import EMBEDDED, load, store
from mercury_model.local import LocalInfiller

Loader = Callable[[str], LocalInfiller]


@pytest.fixture(scope="session")
def weights() -> None:
    """Skips the tests that need the weights where there are none."""
    if store.ready(EMBEDDED, "int8") is None:
        pytest.skip("the weights are not there: mercury-lsp model pull")


@pytest.fixture(scope="session")
def model_of(weights: None) -> Loader:
    """dtype -> the model on the CPU; the 32-bit form is converted (2.5 GB) when a test first asks for it."""
    loaded: dict[str, LocalInfiller] = {}

    def get(dtype: str) -> LocalInfiller:
        if dtype not in loaded:
            model = load(device="cpu", dtype=dtype)
            assert isinstance(model, LocalInfiller)
            if hasattr(os, "getloadavg") and os.getloadavg()[0] > torch.get_num_threads():
                # cores that others use: a pass of several threads waits for the slowest. The results are the same.
                torch.set_num_threads(1)
            loaded[dtype] = model
        return loaded[dtype]

    return get


@pytest.fixture(scope="session")
def model(model_of: Loader) -> LocalInfiller:
    """The model as the server runs it on a CPU: 8-bit."""
    return model_of("int8")
