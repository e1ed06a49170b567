"""kernels/bench.py runs on a machine without a GPU and prints one line for every op."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OPS = {
    "rms_norm", "add_rms_norm", "rope", "swiglu", "linear", "linear_w8", "block_attention", "bidirectional_attention",
    "unmask",
    "unmask sampled", "masked_cross_entropy, both ways",
}  # fmt: skip


@pytest.mark.slow
def test_every_op_has_a_row_and_its_numbers_are_positive():
    command = [sys.executable, str(ROOT / "kernels" / "bench.py"), "--json", "--quick"]
    environment = os.environ | {"TRITON_INTERPRET": "0"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert {row["op"] for row in report["rows"]} == OPS
    for row in report["rows"]:
        for column in ("reference_ms", "ours_ms", "gb_per_s"):
            assert row[column] > 0, (row, column)
