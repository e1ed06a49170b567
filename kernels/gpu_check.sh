#!/bin/sh
# Everything that needs a GPU, in one command and about six minutes: the gpu tests, then the bench table.
#   kernels/gpu_check.sh [FOLDER]        results go to FOLDER (default: bench-results)
# Needs a python with a CUDA build of torch, triton and pytest, nothing else; PYTHON chooses it.
set -u
cd "$(dirname "$0")/.."
out=${1:-bench-results}
python=${PYTHON:-python3}
mkdir -p "$out"
export PYTHONPATH="kernels:model:." TRITON_INTERPRET=0
"$python" -c 'import sys, torch
sys.exit(0 if torch.cuda.is_available() else "gpu_check: torch sees no CUDA device; run this on a machine with one")' ||
    exit 2
# -c /dev/null: the project's own options want plugins that a bare GPU machine may lack
"$python" -m pytest -c /dev/null --rootdir=. --import-mode=importlib -p no:cacheprovider tests/kernels -m gpu -q >"$out/gpu-tests.txt" 2>&1
tests=$?
tail -n 15 "$out/gpu-tests.txt"
"$python" kernels/bench.py --json >"$out/bench.json" 2>"$out/bench-errors.txt"
bench=$?
tail -n 5 "$out/bench-errors.txt"
"$python" - "$out/bench.json" <<'TABLE' | tee "$out/bench.txt"
import json, sys
sys.path.insert(0, "kernels")
import bench
report = json.load(open(sys.argv[1]))
print({k: v for k, v in report.items() if k != "rows"})
print(bench.text(report["rows"]))
TABLE
echo "tests: exit $tests, bench: exit $bench, files in $out"
[ "$tests" -eq 0 ] && [ "$bench" -eq 0 ]
