"""The command that checks everything on a GPU: what it refuses, and what its summary says about the goals."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, check=False)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
@pytest.mark.skipif(os.name == "nt", reason="a shell script")
def test_without_a_gpu_it_says_so_and_does_nothing(tmp_path: Path) -> None:
    done = run("sh", str(ROOT / "kernels" / "gpu_check.sh"), str(tmp_path / "out"), PYTHON=sys.executable)
    assert done.returncode == 2
    assert "no CUDA device" in done.stderr
    assert not list((tmp_path / "out").iterdir())


def row(op: str = "unmask", shape: str = "32x896 of 151936", reference: float = 4.0, share: float = 0.8) -> dict:
    return {"op": op, "shape": shape, "reference_ms": reference, "ours_ms": 1.0, "share": share}


def policy(name: str, times: float, speed: float, same: float = 1.0) -> dict:
    names = ("path", "policy", "times_greedy", "tokens_per_s", "same_as_greedy", "ms_per_forward")
    return dict(zip(names, ("graph", name, times, speed, same, 0.7), strict=True))


CASES = {
    "all reached": ([row()], "embedded", [policy("check", 4.2, 1500)], 5, 0),
    "slow unmask, one text different": (
        [row(reference=2.0, share=0.5), row("rope", "32x16x64", 1.0, 0.1)],
        "embedded",
        [policy("check", 4.2, 1500, same=0.5), policy("threshold", 1.5, 900)],
        2,
        5,
    ),
    "random weights have no goals": ([], "random", [policy("check", 0.5, 300)], 0, 0),
}


@pytest.mark.parametrize("name", CASES)
def test_the_summary_names_each_goal_and_whether_it_is_reached(tmp_path: Path, name: str) -> None:
    bench, weights, policies, n_reached, n_missed = CASES[name]
    (tmp_path / "bench.json").write_text(json.dumps({"device": "a GPU", "rows": bench}), encoding="utf-8")
    report = {"weights": weights, "rows": [policy("greedy", 1.0, 350), *policies]}
    (tmp_path / "tokens.json").write_text(json.dumps(report), encoding="utf-8")
    done = run(sys.executable, str(ROOT / "kernels" / "gpu_summary.py"), str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("reached  ") == n_reached
    assert done.stdout.count("MISSED ") == n_missed
    assert ("with random weights" in done.stdout) == (weights == "random")


def test_the_summary_of_stages_that_failed_is_empty(tmp_path: Path) -> None:
    (tmp_path / "bench.json").write_text("", encoding="utf-8")
    done = run(sys.executable, str(ROOT / "kernels" / "gpu_summary.py"), str(tmp_path))
    assert (done.returncode, done.stdout) == (0, "")
