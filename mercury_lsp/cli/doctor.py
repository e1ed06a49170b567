"""Say what is installed, which device, which weights, how much memory, and what helps where something is wrong.

Exit status 1 if something is wrong. The memory is measured in a process of its own that loads the model as the
server does; --quick leaves that out.
"""

import argparse
import importlib
import importlib.metadata
import importlib.resources
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from mercury_lsp import __version__
from mercury_lsp.errors import FailureError
from mercury_lsp.settings import Settings
from mercury_model import store
from mercury_model.errors import ModelError

MARKS = {"ok": "ok", "note": "--", "wrong": "!!"}

ROOM_NEEDED = 1_900_000_000
"""Bytes that a fetch and a conversion take at most: the GGUF and its 16-bit form side by side."""

MEMORY_LIMIT = 1_600_000_000
"""Bytes that the server with the embedded model should stay below on a CPU."""

MEASURE_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. note: nothing is wrong, but something could be better. data: figures for scripts."""

    name: str
    status: Literal["ok", "note", "wrong"]
    value: str
    remedy: str = ""
    data: dict[str, Any] = field(default_factory=dict[str, Any])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quick", action="store_true", help="do not load the model to measure its memory")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    if args.measure:
        print(json.dumps(measure()))
        return 0
    findings: list[Finding] = []
    for check in CHECKS:
        findings += check()
    if not args.quick:
        findings.append(memory())
    wrong = sum(finding.status == "wrong" for finding in findings)
    if args.json:
        print(json.dumps({"ok": not wrong, "checks": [asdict(finding) for finding in findings]}, ensure_ascii=False))
    else:
        for finding in findings:
            print(f"{MARKS[finding.status]}  {finding.name:<10} {finding.value}")
            if finding.remedy:
                print(f"{'':<15}-> {finding.remedy}")
        print("nothing is wrong" if not wrong else f"{wrong} wrong: see the lines marked {MARKS['wrong']}")
    return 1 if wrong else 0


def python() -> list[Finding]:
    found = f"{platform.python_version()} ({sys.executable}), {platform.system()} {platform.machine()}"
    return [Finding("python", "ok", found), Finding("package", "ok", f"mercury-lsp {__version__}")]


def device() -> list[Finding]:
    try:
        torch = importlib.import_module("torch")
    except (ImportError, OSError) as error:
        return [Finding("torch", "wrong", f"cannot be imported: {error}", "pip install 'torch>=2.13'")]
    findings = [Finding("torch", "ok", str(torch.__version__))]
    capability, threads = torch.backends.cpu.get_cpu_capability(), torch.get_num_threads()
    findings.append(
        Finding(
            "cpu",
            "ok" if "AVX2" in capability or "AVX512" in capability or platform.machine() != "x86_64" else "note",
            f"{capability}, {threads} threads of {os.cpu_count()} cores",
            data={"capability": capability, "threads": threads},
        )
    )
    if not torch.cuda.is_available():
        return [*findings, Finding("cuda", "ok", "no GPU: the model runs on the CPU in 8 bits")]
    cards = [torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())]
    findings.append(Finding("cuda", "ok", f"{torch.version.cuda}, {', '.join(cards)}", data={"devices": cards}))
    if version("triton") is None:
        remedy = "pip install triton (without it the slower library functions are used)"
        findings.append(Finding("triton", "note", "not installed", remedy))
    return findings


def packages() -> list[Finding]:
    names = ("triton", "pygls", "tokenizers", "gguf", "huggingface_hub", "tree-sitter")
    found = {name: version(name) for name in names}
    missing = [name for name, has in found.items() if has is None and name != "triton"]
    value = ", ".join(f"{name} {has or 'not installed'}" for name, has in found.items())
    if missing:
        return [Finding("packages", "wrong", value, f"pip install {' '.join(missing)}")]
    return [Finding("packages", "ok", value)]


def version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def grammars() -> list[Finding]:
    from mercury_lsp.languages import GRAMMARS
    from mercury_lsp.syntax import parse

    broken: list[str] = []
    for name, grammar in GRAMMARS.items():
        try:
            usable = parse("", name) is not None
        except (ImportError, AttributeError, OSError, ValueError):
            usable = False
        if not usable:
            broken.append(grammar.module.replace("_", "-"))
    if broken:
        value = f"{len(broken)} of {len(GRAMMARS)} cannot be loaded: {', '.join(broken)}"
        return [Finding("grammars", "wrong", value, f"pip install {' '.join(dict.fromkeys(broken))}")]
    return [Finding("grammars", "ok", f"{len(GRAMMARS)} languages: {', '.join(GRAMMARS)}")]


def weights() -> list[Finding]:
    name = Settings().model.name
    try:
        folder, there = store.folder(name), store.files(name)
    except ModelError as error:
        return [Finding("weights", "wrong", str(error))]
    ready = [dtype for dtype in store.DTYPES if store.ready(name, dtype)]
    sizes = ", ".join(f"{path.name} {megabytes(path.stat().st_size)}" for path in there)
    data = {"folder": str(folder), "ready": ready, "files": {str(path): path.stat().st_size for path in there}}
    if not ready:
        value = f"{name} is not complete in {folder}" + (f" ({sizes})" if sizes else "")
        return [Finding("weights", "wrong", value, "mercury-lsp model pull", data), room(folder)]
    value = f"{name} in {folder}, verified for {' and '.join(ready)}: {sizes}"
    return [Finding("weights", "ok", value, data=data), room(folder, needed=0)]


def room(folder: Path, needed: int = ROOM_NEEDED) -> Finding:
    existing = next((path for path in (folder, *folder.parents) if path.is_dir()), Path.cwd())
    free = shutil.disk_usage(existing).free
    value = f"{free / 1e9:.1f} GB free at {existing}"
    if free < needed:
        remedy = f"free {(needed - free) / 1e9:.1f} GB, or set MERCURY_LSP_CACHE to a folder on another disk"
        return Finding("disk", "wrong", value, remedy, {"free": free})
    if not os.access(existing, os.W_OK):
        remedy = "set MERCURY_LSP_CACHE to a folder that may be written"
        return Finding("disk", "wrong" if needed else "note", f"{value}, not writable", remedy, {"free": free})
    return Finding("disk", "ok", value, data={"free": free})


def adapter() -> list[Finding]:
    from safetensors import SafetensorError, safe_open

    file = Path(str(importlib.resources.files("mercury_model") / "adapter.safetensors"))
    try:
        with safe_open(file, "np") as opened:
            n_tensors = len(opened.keys())
    except (OSError, SafetensorError) as error:
        return [Finding("adapter", "wrong", f"{file.name} cannot be read: {error}", "reinstall mercury-lsp")]
    return [Finding("adapter", "ok", f"{file} ({megabytes(file.stat().st_size)}, {n_tensors} tensors)")]


def memory() -> Finding:
    """Starts a child that loads the model as the server does and reports its own size."""
    name = Settings().model.name
    try:
        there = any(store.ready(name, dtype) for dtype in store.DTYPES)
    except ModelError:
        there = False
    if not there:
        return Finding("memory", "note", "not measured: there are no weights to load")
    command = [sys.executable, "-m", "mercury_lsp", "doctor", "--measure"]
    try:
        child = subprocess.run(command, capture_output=True, text=True, timeout=MEASURE_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return Finding("memory", "wrong", f"the model was not loaded within {MEASURE_SECONDS} s")
    if child.returncode != 0:
        last = (child.stderr.strip().splitlines() or [f"exit status {child.returncode}"])[-1]
        # a line of ours says itself what to do
        remedy = "" if last.startswith("mercury-lsp: ") else "mercury-lsp doctor --measure prints the whole error"
        return Finding("memory", "wrong", f"the model cannot be loaded: {last.removeprefix('mercury-lsp: ')}", remedy)
    figures: dict[str, Any] = json.loads(child.stdout.splitlines()[-1])
    rss = int(figures["rss"])
    value = f"{megabytes(rss)} resident with {figures['model']} on {figures['device']}, loaded in {figures['load']} s"
    if figures["adapter"]:
        value += f", adapter {figures['adapter']}"
    if rss > MEMORY_LIMIT and figures["device"] == "cpu":
        return Finding("memory", "note", value, f"more than the usual {megabytes(MEMORY_LIMIT)}", figures)
    return Finding("memory", "ok", value, data=figures)


def measure() -> dict[str, Any]:
    """Load the server and the model into this process and run one request. Sizes in bytes, times in seconds."""
    import psutil

    from mercury_lsp import loading
    from mercury_model.draft import Request

    importlib.import_module("mercury_lsp.server")
    started = time.monotonic()
    infiller = loading.load_infiller(Settings(), lambda message, fraction: None)
    loaded = time.monotonic()
    drafts = list(infiller(Request("def add(a, b):\n    return ", "\n", max_tokens=8)))
    if not drafts or not drafts[-1].done:
        raise FailureError("the model is loaded but does not finish a request")
    info = infiller.info
    return {
        "rss": psutil.Process().memory_info().rss,
        "load": round(loaded - started, 2),
        "request": round(time.monotonic() - loaded, 2),
        "model": info.name,
        "device": info.device,
        "adapter": info.adapter,
    }


def megabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:.0f} MB"


CHECKS: tuple[Callable[[], list[Finding]], ...] = (python, device, packages, grammars, weights, adapter)
"""In the order of the report; a new check is a function and an entry here."""
