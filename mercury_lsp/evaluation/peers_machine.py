"""What a figure was measured on and with, and how much memory a process took. Knows nothing about models."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from mercury_lsp.errors import FailureError

PACKAGES = ("mercury-lsp", "torch", "tokenizers", "tree-sitter")
GIB = 1 << 30


def machine(with_: Sequence[str] = ()) -> str:
    """One line: processor, cores this process may use, memory, system, versions, `with_`, and how busy it is."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    parts = [
        _processor(),
        f"{cores} cores",
        f"{psutil.virtual_memory().total / GIB:.0f} GiB",
        platform.system(),
        f"Python {platform.python_version()}",
        *(f"{name} {found}" for name in PACKAGES if (found := _version(name))),
        *with_,
    ]
    if hasattr(os, "getloadavg"):
        parts.append(f"load average {os.getloadavg()[0]:.1f}")
    return ", ".join(part for part in parts if part)


def peak_resident(pid: int) -> int:
    """Bytes of memory a living process held at most, mapped files included; held now, where no peak is kept."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    found = psutil.Process(pid).memory_info()
    return int(getattr(found, "peak_wset", found.rss))


def ours_resident(name: str, device: str, prefix: str, suffix: str) -> int:
    """peak_resident of a process that has loaded our model and answered one request. FailureError if it did not."""
    command = [sys.executable, "-m", "mercury_lsp.evaluation.answer_once", name, device]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps({"prefix": prefix, "suffix": suffix}) + "\n")
        process.stdin.flush()
        if process.stdout.readline() != "answered\n":
            raise FailureError("a process with the model did not answer; `mercury-lsp doctor` may say why")
        return peak_resident(process.pid)


def _processor() -> str:
    """The processor's name as the system knows it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
