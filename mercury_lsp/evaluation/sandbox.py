"""Runs a generated program in a child process that cannot harm this one nor talk its way to a pass.

Passed means: the program ran to its last statement within the limits. The child proves it by sending back a
secret that the kernel holds for it until then (sandbox_child.py); leaving early, printing, hanging, forking,
filling memory or flooding the output all end without it. Knows nothing about benchmarks.
"""

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from mercury_lsp.errors import FailureError

CHILD = Path(__file__).with_name("sandbox_child.py")


@dataclass(frozen=True, slots=True)
class Limits:
    """cpu, wall: seconds. memory: bytes of address space. output: bytes of standard output and error."""

    cpu: int = 10
    wall: float = 20.0
    memory: int = 1 << 30
    output: int = 1 << 20


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Verdict:
    """reason: empty for a pass, else "failed", "timeout" (wall clock), "killed" (by a limit) or "left early"."""

    passed: bool
    reason: str = ""


def run_program(program: str, limits: Limits = DEFAULT_LIMITS) -> Verdict:
    """Runs Python source in its own interpreter, directory, process group and, where permitted, network.

    Raises FailureError where the system has no process groups and resource limits.
    """
    if os.name != "posix":
        raise FailureError("running generated programs needs Linux or macOS: the sandbox relies on their limits")
    secret = secrets.token_hex(16).encode()
    secret_read, secret_write = os.pipe()
    verdict_read, verdict_write = os.pipe()
    try:
        os.write(secret_write, secret)
        os.close(secret_write)
        os.set_blocking(verdict_read, False)
        order = {
            "program": program,
            "secret_fd": secret_read,
            "verdict_fd": verdict_write,
            "limits": {
                "RLIMIT_CPU": limits.cpu,
                "RLIMIT_AS": limits.memory,
                "RLIMIT_FSIZE": limits.output,
                "RLIMIT_NPROC": 0,
                "RLIMIT_CORE": 0,
            },
        }
        code, timed_out = _run_child(json.dumps(order).encode(), (secret_read, verdict_write), limits.wall)
        try:
            answer = os.read(verdict_read, 64)
        except BlockingIOError:
            answer = b""
    finally:
        for descriptor in (secret_read, verdict_read, verdict_write):
            os.close(descriptor)
    if timed_out:
        return Verdict(False, "timeout")
    if code < 0:
        return Verdict(False, "killed")
    if code > 0:
        return Verdict(False, "failed")
    return Verdict(True) if secrets.compare_digest(answer, secret) else Verdict(False, "left early")


def _run_child(order: bytes, descriptors: tuple[int, ...], wall: float) -> tuple[int, bool]:
    """Exit status (negative: the signal that ended it) and whether the wall clock ended it."""
    with tempfile.TemporaryDirectory(prefix="mercury-sandbox-") as folder:
        output_path = Path(folder) / "output"
        with output_path.open("wb") as output, tempfile.TemporaryFile() as stdin:
            stdin.write(order)
            stdin.seek(0)
            child = subprocess.Popen(
                # -s -S -P -B: the standard library alone, nothing from the current folder, nothing written back
                [sys.executable, "-s", "-S", "-P", "-B", str(CHILD)],
                stdin=stdin,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                # the hash seed is fixed so that a verdict does not depend on the order of a set
                env={"PYTHONHASHSEED": "0", "LANG": "C.UTF-8"},
                pass_fds=descriptors,
                start_new_session=True,
            )
            try:
                return child.wait(wall), False
            except subprocess.TimeoutExpired:
                return -signal.SIGKILL, True
            finally:
                _end_group(child)


def _end_group(child: subprocess.Popen[bytes]) -> None:
    """Ends everything the child started too; the group is gone already when nothing is left of it."""
    # macOS answers PermissionError for a group that holds only zombies
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
