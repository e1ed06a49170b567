"""The server's own watcher: which folders, how it lives with refusals, and that new folders are followed."""

import asyncio
import errno
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest

from mercury_lsp.workspace.ignore import Ignore
from mercury_lsp.workspace.watching import folders, must_poll, watch
from tests.lsp.test_index import tree

SECONDS = 30


def names(root: Path, limit: int = 100) -> list[str]:
    return [folder.relative_to(root).as_posix() for folder in folders([(root, Ignore([root]))], limit)]


def test_K1_what_tools_make_and_what_is_ignored_is_not_watched(tmp_path: Path) -> None:
    files = ("a/x.py", "a/b/x.py", "node_modules/m/x.js", ".git/HEAD", ".venv/lib/x.py", "gen/x.py", "a/target/x.rs")
    root = tree(tmp_path, {**dict.fromkeys(files, ""), ".gitignore": "gen/\n"})
    (root / "link").symlink_to(root / "a")
    assert names(root) == [".", "a", "a/b"]


def test_K1_the_number_of_watches_is_bounded_and_the_top_comes_first(tmp_path: Path) -> None:
    root = tree(tmp_path, {f"d{n}/e{m}/x.py": "" for n in range(5) for m in range(5)})
    assert names(root, 6) == [".", "d0", "d1", "d2", "d3", "d4"]
    assert len(names(root, 10)) == 10
    assert folders([(root / "gone", Ignore())], 5) == []


MOUNTS = (
    "/dev/sda / ext4 rw 0 0\nC:\\134 /mnt/c 9p rw 0 0\nhost:/x /net/my\\040share nfs4 rw 0 0\nlxfs /old lxfs rw 0 0\n"
)


@pytest.mark.parametrize(
    ("path", "release", "expected"),
    [
        ("/home/me/p", "6.1.0-generic", False),
        ("/home/me/p", "5.15.0-microsoft-standard-WSL2", False),
        ("/mnt/c/p", "5.15.0-microsoft-standard-WSL2", True),
        ("/mnt/cc/p", "5.15.0-microsoft-standard-WSL2", False),
        ("/net/my share/p", "6.1.0-generic", True),
        ("/old/p", "4.4.0-19041-Microsoft", True),
    ],
)
def test_K3_polling_where_the_system_reports_nothing(path: str, release: str, expected: bool) -> None:
    assert must_poll(Path(path), MOUNTS, release) == expected


class Script:
    """A watcher that yields what it is told to, or fails."""

    def __init__(self, *rounds: list[set[tuple[Any, str]]] | Exception) -> None:
        self.rounds = list(rounds)
        self.calls: list[tuple[tuple[Path, ...], dict[str, Any]]] = []

    async def __call__(self, *paths: Path, **options: Any) -> AsyncGenerator[set[tuple[Any, str]], None]:
        self.calls.append((paths, options))
        turn = self.rounds.pop(0)
        if isinstance(turn, Exception):
            raise turn
        for batch in turn:
            yield batch


async def run(root: Path, script: Script) -> tuple[list[str], list[str]]:
    seen: list[Path] = []
    warnings: list[str] = []
    await asyncio.wait_for(watch([(root, Ignore([root]))], seen.extend, warnings.append, watcher=script), SECONDS)
    return [path.relative_to(root).as_posix() for path in seen], warnings


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), RuntimeError("OS file watch limit reached")]
)
async def test_K2_a_refusal_is_one_warning_with_the_remedy(tmp_path: Path, error: Exception) -> None:
    script = Script(error)
    seen, warnings = await run(tmp_path, script)
    assert seen == []
    assert len(warnings) == 1
    assert "max_user_watches" in warnings[0]
    assert len(script.calls) == 1


async def test_any_other_failure_is_one_warning(tmp_path: Path) -> None:
    _, warnings = await run(tmp_path, Script(ValueError("x")))
    assert len(warnings) == 1
    assert "context.watch" in warnings[0]


async def test_a_new_folder_is_watched_too_and_looked_through(tmp_path: Path) -> None:
    tree(tmp_path, {"new/x.py": ""})
    files = [{(1, str(tmp_path / "a.py"))}, {(1, str(tmp_path / "new" / "deeper"))}]
    script = Script(files, [{(1, str(tmp_path / "b.py"))}])
    make: Callable[[], None] = (tmp_path / "new" / "deeper").mkdir

    class Making(Script):
        async def __call__(self, *paths: Path, **options: Any) -> AsyncGenerator[set[tuple[Any, str]], None]:
            if not self.calls:
                asyncio.get_running_loop().call_soon(make)
            async for batch in super().__call__(*paths, **options):
                await asyncio.sleep(0.01)
                yield batch

    making = Making(*script.rounds)
    seen, warnings = await run(tmp_path, making)
    assert warnings == []
    assert seen == ["a.py", "new/deeper", "new/deeper", "b.py"]
    assert [len(paths) for paths, _ in making.calls] == [2, 3]
    assert all(options["recursive"] is False for _, options in making.calls)


async def test_a_folder_that_goes_meanwhile_is_no_failure(tmp_path: Path) -> None:
    script = Script(FileNotFoundError(), [{(1, str(tmp_path / "a.py"))}])
    assert await run(tmp_path, script) == (["a.py"], [])


async def test_the_real_watcher_reports_a_change(tmp_path: Path) -> None:
    seen: asyncio.Queue[Path] = asyncio.Queue()

    def changed(paths: list[Path]) -> None:
        for path in paths:
            seen.put_nowait(path)

    task = asyncio.ensure_future(watch([(tmp_path, Ignore([tmp_path]))], changed, lambda _: None))
    try:
        async with asyncio.timeout(SECONDS):
            number = 0
            while seen.empty():  # it takes a moment until it looks: write until one is seen
                number += 1
                (tmp_path / "a.py").write_text(str(number))
                await asyncio.sleep(0.2)
            assert seen.get_nowait() == tmp_path / "a.py"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
