"""Watches folders for the server where the client cannot: each folder by itself and never a tree, so that nothing is
spent on node_modules or .venv; by polling where the system reports nothing (WSL's Windows drives, network mounts).

What cannot be watched is said once and lived with: saved files are noticed anyway. It knows nothing about what the
changes are for.
"""

import asyncio
import contextlib
import errno
import logging
import os
import platform
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Any, cast

from mercury_lsp.workspace.ignore import SKIPPED_FOLDERS, Ignore

logger = logging.getLogger(__name__)

MAX_FOLDERS = 1_000
"""Watches at most, those near the top first: the system's own limit is shared by all programs of the user."""
MAX_POLLED = 100
"""As many when they must be polled, which costs time for every folder again and again."""
POLL_MS = 3_000
STEP_MS = 500
"""How often the watcher looks whether it has something to say: idle must cost nothing."""
AGAIN_SECONDS = 1.0
"""After the watcher has met a name that it cannot read."""
REMOTE = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "drvfs", "fuse.sshfs", "vboxsf", "fuse.vmhgfs-fuse", "afs")
"""File systems that do not report changes made elsewhere."""

Root = tuple[Path, Ignore]


Watch = Callable[..., AsyncGenerator[set[tuple[Any, str]], None]]
"""watchfiles.awatch, or a test's."""


def folders(roots: Sequence[Root], limit: int) -> list[Path]:
    """The folders to watch: the roots and what is below them and is not ignored, level by level."""
    found: list[Path] = []
    todo = deque(roots)
    while todo and len(found) < limit:
        folder, ignore = todo.popleft()
        if any("\ud800" <= char <= "\udfff" for char in str(folder)):
            continue  # a name that is no UTF-8: the watcher takes none, and would end for all the others
        try:
            with os.scandir(folder) as entries:
                below = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        except OSError:
            continue
        if folder not in found:
            found.append(folder)
        for name in below:
            path = folder / name
            if name not in SKIPPED_FOLDERS and not ignore.reason_in_walk(path / "x"):
                todo.append((path, ignore))
    return found


def must_poll(path: Path, mounts: str | None = None, release: str | None = None) -> bool:
    """Whether changes below `path` are not reported by the system.

    mounts: the text of /proc/mounts; release: of the kernel.
    """
    if sys.platform == "win32" or sys.platform == "darwin":
        return str(path).startswith("\\\\")
    if mounts is None:
        try:
            mounts = Path("/proc/mounts").read_text("utf-8", "replace")
        except OSError:
            return False
    kind, longest = "", -1
    for line in mounts.splitlines():
        parts = line.split(" ")
        if len(parts) > 2:
            point = Path(parts[1].replace("\\040", " "))
            if path.is_relative_to(point) and len(point.parts) >= longest:
                kind, longest = parts[2], len(point.parts)
    wsl1 = "microsoft" in (release or platform.release()).lower() and kind in ("lxfs", "wslfs")
    return kind in REMOTE or wsl1


async def watch(
    roots: Sequence[Root],
    changed: Callable[[list[Path]], None],
    warn: Callable[[str], None],
    *,
    watcher: Watch | None = None,
    limit: int = MAX_FOLDERS,
) -> None:
    """Reports changed paths until it is cancelled; returns after a warning when the system refuses."""
    watcher = watcher or _watchfiles()
    polled = await asyncio.to_thread(lambda: [root for root in roots if must_poll(root[0])])
    known: set[Path] = set()
    while True:
        most = min(limit, MAX_POLLED) if polled else limit
        found = await asyncio.to_thread(folders, roots, most)
        if not found:
            return
        if known and (new := [folder for folder in found if folder not in known]):
            changed(new)  # what was made in them before they were watched
        known = set(found)
        try:
            if not await _until_a_folder_appears(watcher, found, bool(polled), changed):
                return
        except asyncio.CancelledError:
            raise
        except FileNotFoundError:
            continue  # a folder went while it was looked at
        except Exception as error:
            if _about_a_name(error):
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            warn(_explain(error, len(found)))
            return


def _watchfiles() -> Watch:
    from watchfiles import awatch  # not at the top: most clients watch by themselves

    return cast("Watch", awatch)


async def _until_a_folder_appears(
    watcher: Watch, found: list[Path], poll: bool, changed: Callable[[list[Path]], None]
) -> bool:
    """Reports changes; True when there is a new folder, False when the watcher ended."""
    known = set(found)
    options = {
        "recursive": False,
        "watch_filter": None,
        "step": STEP_MS,
        "rust_timeout": 60_000,
        "poll_delay_ms": POLL_MS,
    }
    async with contextlib.aclosing(watcher(*found, force_polling=poll, **options)) as changes:
        async for batch in changes:
            paths = [Path(path) for _, path in batch]
            changed(paths)
            if any(path not in known and path.name not in SKIPPED_FOLDERS and path.is_dir() for path in paths):
                return True
    return False


def _about_a_name(error: BaseException) -> bool:
    """Whether the watcher ended because a name is no UTF-8: that change is lost, and no other."""
    if isinstance(error, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", error)
        return all(_about_a_name(single) for single in inner.exceptions)
    return "decode path" in str(error)


def _explain(error: Exception, n_folders: int) -> str:
    limit = getattr(error, "errno", None) in (errno.ENOSPC, errno.EMFILE) or any(
        word in str(error).lower() for word in ("no space left", "watch limit", "too many open files")
    )
    if limit:
        return (
            f"The system refuses to watch {n_folders} more folders: changes made outside the editor are not noticed. "
            "Raise fs.inotify.max_user_watches and fs.inotify.max_user_instances (sysctl), or set context.watch to "
            "false."
        )
    logger.warning("watching failed: %s", type(error).__name__)
    return "Folders cannot be watched here: changes made outside the editor are not noticed (setting context.watch)."
