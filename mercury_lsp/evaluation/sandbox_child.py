"""The inside of the sandbox: fences itself in, runs one program, and reports only if it ran to its end.

A script, started by sandbox.py in an isolated interpreter; it imports nothing of ours. Standard input carries
one JSON object: `program`, the descriptors `secret_fd` and `verdict_fd`, and the limits in bytes and seconds.
The secret stays unread in its pipe until the program has finished, so the program finds it neither in an
argument, nor in a variable, nor in the environment. The fence keeps out what generated code does by mistake or
to look finished; it is not built to hold an attacker who studies it.
"""

import json
import os
import sys
import types
from typing import Any

FORBIDDEN_EVENTS = (
    *("os.fork", "os.forkpty", "os.exec", "os.posix_spawn", "os.spawn", "os.system", "subprocess.", "pty."),
    *("os.kill", "os.killpg", "signal.pthread_kill", "socket.", "ctypes.", "mmap.", "sys.addaudithook"),
    *("os.remove", "os.rename", "os.rmdir", "os.truncate", "os.chmod", "os.chown", "os.link", "os.symlink"),
    *("os.mkdir", "os.utime", "os.setxattr", "os.removexattr", "os.chflags", "shutil.", "tempfile."),
)
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def limit_resources(limits: dict[str, int]) -> None:
    """Kernel limits. The number of processes is not limited for root; the audit hook covers that case."""
    import resource

    for name, value in limits.items():
        kind = getattr(resource, name, None)
        if kind is None:
            continue
        _, hard = resource.getrlimit(kind)
        ceiling = value if hard == resource.RLIM_INFINITY else min(value, hard)
        # some systems refuse a limit they do have a name for (RLIMIT_AS on macOS)
        try:
            resource.setrlimit(kind, (ceiling, ceiling))
        except (ValueError, OSError):
            continue


def leave_network() -> bool:
    """Moves into an empty network namespace; False where the system has none or does not permit it."""
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    new_user, new_network = 0x10000000, 0x40000000
    unshare = ctypes.CDLL(None, use_errno=True).unshare
    return unshare(new_user | new_network) == 0 or unshare(new_network) == 0


def audit(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuses what no solution of a coding task needs. An audit hook cannot be taken off again."""
    if event == "open":
        flags = arguments[2]
        if isinstance(flags, int) and flags & WRITING:
            raise PermissionError("the sandbox does not write files")
    elif event.startswith(FORBIDDEN_EVENTS):
        raise PermissionError(f"the sandbox does not permit {event}")


def main() -> None:
    order: dict[str, Any] = json.loads(sys.stdin.buffer.read())
    read, write, leave = os.read, os.write, os._exit
    leave_network()
    limit_resources(order["limits"])
    sys.addaudithook(audit)
    module = types.ModuleType("solution")
    sys.modules["solution"] = module
    try:
        exec(compile(order["program"], "solution.py", "exec"), module.__dict__)
        sys.stdout.flush()
    except BaseException:
        leave(1)
    write(order["verdict_fd"], read(order["secret_fd"], 64))
    leave(0)


if __name__ == "__main__":
    main()
