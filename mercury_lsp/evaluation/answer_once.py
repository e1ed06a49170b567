"""Loads a model, answers one request and stays until its input ends: what a process of ours takes up in memory.

    python -m mercury_lsp.evaluation.answer_once NAME DEVICE      with {"prefix": ..., "suffix": ...} on stdin

It prints one line when the answer is there. It knows nothing about measuring.
"""

import dataclasses
import json
import sys
import warnings

from mercury_lsp import loading
from mercury_lsp.settings import ModelSettings, Settings
from mercury_model.draft import Request


def main(name: str, device: str) -> None:
    warnings.filterwarnings("ignore", "torch.quantize_per_tensor", UserWarning)
    settings = dataclasses.replace(Settings(), model=ModelSettings(name=name, device=device))
    infiller = loading.load_infiller(settings, lambda message, fraction: None)
    request = Request(**json.loads(sys.stdin.readline()))
    for _ in infiller(request):
        pass
    print("answered", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
