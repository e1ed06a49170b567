"""What importing the package costs and where it lies."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PROBE = """
import sys
sys.path.insert(0, {path!r})
sys.modules["triton"] = None                       # an import of it raises ImportError
import torch
before = set(sys.modules)
import mercury_kernels as mk
print(*sorted(m for m in set(sys.modules) - before if not m.startswith("mercury_kernels")))
assert mk.swiglu(torch.ones(2, 4)).shape == (2, 2)
assert len(mk.unmask(torch.ones(3, 4), (mk.Dense(torch.ones(5, 4)),))) == 3
"""


@pytest.mark.parametrize("folder", ["kernels", "model"])
def test_the_folder_is_no_package_itself(folder):
    assert not (ROOT / folder / "__init__.py").exists()


def test_it_works_without_triton_and_imports_nothing_beyond_torch():
    code = PROBE.format(path=str(ROOT / "kernels"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    heavy = [m for m in done.stdout.split() if m.split(".")[0] in ("triton", "transformers", "torch")]
    assert not heavy
