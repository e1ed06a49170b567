#!/bin/sh
# Everything that needs a GPU, in one command and about seven minutes: gpu tests, bench table, tokens per second.
#   kernels/gpu_check.sh [FOLDER [STAGE...]]    results go to FOLDER (default: bench-results)
# STAGE: tests, bench, tokens; without any, all of them. docs/gpu.md says how to bring the weights where there is no
# network: PARTS names a folder with the pieces of the published file (and wheels that the machine lacks). Without
# weights, tokens per second are measured on random ones: times of passes, not of text.
# Needs a python with a CUDA build of torch, triton, pytest, safetensors and tokenizers; PYTHON chooses it.
set -u
cd "$(dirname "$0")/.."
out=${1:-bench-results}
[ $# -gt 0 ] && shift
stages=${*:-tests bench tokens}
python=${PYTHON:-python3}
parts=${PARTS:-}
mkdir -p "$out"
PYTHONPATH="kernels:model:.${PYTHONPATH:+:$PYTHONPATH}"
for wheel in ${parts:+"$parts"/*.whl}; do
    [ -f "$wheel" ] && PYTHONPATH="$PYTHONPATH:$wheel" # a wheel of plain Python is imported where it lies
done
export PYTHONPATH TRITON_INTERPRET=0
"$python" -c 'import sys, torch
sys.exit(0 if torch.cuda.is_available() else "gpu_check: torch sees no CUDA device; run this on a machine with one")' ||
    exit 2
failed=0

gpu_tests() {
    # -c /dev/null: the project's own options want plugins that a bare GPU machine may lack
    "$python" -m pytest -c /dev/null --rootdir=. --import-mode=importlib -p no:cacheprovider tests/kernels -m gpu -q \
        >"$out/gpu-tests.txt" 2>&1
    status=$?
    tail -n 15 "$out/gpu-tests.txt"
    return $status
}

bench() {
    "$python" kernels/bench.py --json >"$out/bench.json" 2>"$out/bench-errors.txt"
    status=$?
    tail -n 5 "$out/bench-errors.txt"
    return $status
}

tokens() {
    if [ -z "${MERCURY_LSP_GGUF:-}" ] && [ -f "${parts:+$parts/part-00}" ]; then
        MERCURY_LSP_GGUF="$parts/joined.gguf"
        cat "$parts"/part-[0-9][0-9] >"$MERCURY_LSP_GGUF"
        export MERCURY_LSP_GGUF
        export MERCURY_LSP_CACHE="${MERCURY_LSP_CACHE:-$parts/cache}"
    fi
    random=
    "$python" -c 'import sys, os
from mercury_model import store
sys.exit(not (os.environ.get("MERCURY_LSP_GGUF") or store.ready(store.DEFAULT, "bf16")))' 2>/dev/null || random=--random
    "$python" model/tokens_per_second.py $random --json "$out/tokens.json" >"$out/tokens.txt" 2>&1
    status=$?
    tail -n 12 "$out/tokens.txt"
    return $status
}

for stage in $stages; do
    case $stage in
    tests) gpu_tests ;;
    bench) bench ;;
    tokens) tokens ;;
    *)
        echo "gpu_check: unknown stage $stage: choose tests, bench or tokens" >&2
        exit 2
        ;;
    esac
    status=$?
    echo "$stage: exit $status"
    [ "$status" -eq 0 ] || failed=1
done
"$python" kernels/gpu_summary.py "$out" | tee "$out/summary.txt"
echo "files in $out"
exit $failed
