"""Where the kernels run: under Triton's interpreter on the CPU (float32), and on CUDA (bfloat16, marker gpu).

The interpreter is switched on in tests/conftest.py where there is no CUDA device.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 2e-2}
"""Share of the largest expected value; bfloat16 has 8 significant bits, and two roundings on the way."""


@dataclass(frozen=True)
class Place:
    device: str
    dtype: torch.dtype

    def randn(self, *shape: int, seed: int = 0, grad: bool = False) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(*shape, generator=generator).to(self.device, self.dtype)
        return x.requires_grad_() if grad else x

    def close(self, name: str, got: Tensor, want: Tensor) -> None:
        assert got.shape == want.shape, f"{name}: shape {list(got.shape)}, expected {list(want.shape)}"
        assert not got.isnan().any(), f"{name}: {int(got.isnan().sum())} elements were never written"
        error = (got.double() - want.double()).abs().max().item() if want.numel() else 0.0
        allowed = TOLERANCE[self.dtype] * max(1.0, want.double().abs().max().item() if want.numel() else 0.0)
        assert error <= allowed, f"{name}: off by {error:.3g}, allowed {allowed:.3g}"

    def same_gradients(
        self, kernel: Callable[..., Tensor], reference: Callable[..., Tensor], inputs: dict[str, Tensor]
    ) -> None:
        """Both called with `inputs`, both pulled back from the same gradient."""
        got = kernel(*inputs.values())
        pull = self.randn(*got.shape, seed=99)
        found = torch.autograd.grad(got, list(inputs.values()), pull)
        want = torch.autograd.grad(reference(*inputs.values()), list(inputs.values()), pull)
        for name, a, b in zip(inputs, found, want, strict=True):
            self.close(f"gradient of {name}", a, b)


@pytest.fixture(params=["interpreter", pytest.param("cuda", marks=pytest.mark.gpu)])
def place(request: pytest.FixtureRequest) -> Place:
    triton = pytest.importorskip("triton")
    if request.param == "cuda":
        if not torch.cuda.is_available():
            pytest.skip("no CUDA device")
        return Place("cuda", torch.bfloat16)
    if not triton.knobs.runtime.interpret:
        if torch.cuda.is_available():
            pytest.skip("triton compiles in this process: set TRITON_INTERPRET=1 for the interpreter's half")
        pytest.fail("triton was imported before tests/kernels chose the interpreter: set TRITON_INTERPRET=1")
    return Place("cpu", torch.float32)


@pytest.fixture
def interpreted(place: Place) -> Place:
    """For tests whose bounds are float32's."""
    if place.dtype != torch.float32:
        pytest.skip("float32 only")
    return place


@pytest.fixture(autouse=True)
def poison(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a kernel forgets to write is NaN, or a number that no test expects."""

    def poisoned(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def wrapped(*args: object, **kwargs: object) -> Tensor:
            x = make(*args, **kwargs)
            with torch.no_grad():
                return x.fill_(float("nan") if x.dtype.is_floating_point else 77)

        return wrapped

    monkeypatch.setattr(torch, "empty", poisoned(torch.empty))
    monkeypatch.setattr(torch, "empty_like", poisoned(torch.empty_like))
    yield
