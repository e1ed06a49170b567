"""The index in its own process: it answers while it indexes, follows changes, and never outlives the server."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from mercury_lsp.workspace.index import Limits, Query
from mercury_lsp.workspace.index_process import IndexProcess, IndexRoot, Progress
from tests.lsp.editor import server_env
from tests.lsp.test_index import tree

SECONDS = 60


class Indexed:
    """An index that can be waited for."""

    def __init__(self) -> None:
        self.reports: list[Progress] = []
        self.told = threading.Condition()
        self.process = IndexProcess(self.listen)

    def listen(self, progress: Progress) -> None:
        with self.told:
            self.reports.append(progress)
            self.told.notify_all()

    def wait(self, *, files: int) -> None:
        """Until it is done and holds so many files."""
        with self.told:
            ready = self.told.wait_for(
                lambda: bool(self.reports) and self.reports[-1].done and self.reports[-1].files == files, SECONDS
            )
            assert ready, self.reports[-1:]

    def names(self, root: Path, *names: str) -> set[str]:
        query = Query(str(root), "main.py", "python", "", tuple((name, 1.0) for name in names), (0, 0))
        return {found.name for found in self.process.lookup(query, SECONDS)}


@pytest.fixture
def index() -> Iterator[Indexed]:
    indexed = Indexed()
    yield indexed
    indexed.process.close()


def test_it_follows_changes_of_files_and_folders(index: Indexed, tmp_path: Path) -> None:
    root = tree(tmp_path, {"a.py": "def one(): ...", "b/c.py": "def two(): ...", ".env": "CANARY=1"})
    index.process.open([IndexRoot(root, ("*.gen.py",))], Limits())
    index.wait(files=2)
    assert index.names(root, "one", "two", "CANARY") == {"one", "two"}
    tree(root, {"a.py": "def three(): ...", "new/d.py": "def four(): ...", "x.gen.py": "def five(): ..."})
    (root / "b/c.py").unlink()
    index.reports.clear()
    index.process.changed([root / "a.py", root / "b", root / "new", root / "x.gen.py", root / "b/c.py"])
    index.wait(files=2)
    assert index.names(root, "one", "two", "three", "four", "five") == {"three", "four"}


def test_O5_roots_have_their_own_globs_also_one_inside_another(index: Indexed, tmp_path: Path) -> None:
    root = tree(tmp_path, {"a.py": "def one(): ...", "in/a.py": "def two(): ...", "in/b.py": "def three(): ..."})
    index.process.open([IndexRoot(root, ("b.py",)), IndexRoot(root / "in", ("a.py",))], Limits())
    index.wait(files=2)
    assert index.names(root, "one", "two", "three") == {"one", "three"}


async def test_it_answers_while_it_indexes_and_the_event_loop_goes_on(index: Indexed, tmp_path: Path) -> None:
    body = "class C{0}:\n    def method(self, a: int) -> int:\n        return a\n\n\ndef function_{0}(): ...\n"
    root = tree(tmp_path, {f"p{n % 40}/m{n}.py": body.format(n) for n in range(2000)})
    index.process.open([IndexRoot(root)], Limits())
    turns = 0
    while not (index.reports and index.reports[-1].done):
        await asyncio.sleep(0)
        turns += 1
        if turns % 200 == 0:
            await asyncio.to_thread(index.names, root, "function_1")
        await asyncio.sleep(0.001)
    assert turns > len(index.reports)  # the loop had nothing to do with the work
    assert index.process.pid is not None
    assert index.reports[-1] == Progress(2000, 6000, True)
    assert index.names(root, "function_7", "function_1999") == {"function_7", "function_1999"}


def test_without_folders_there_is_no_process(index: Indexed) -> None:
    index.process.open([], Limits())
    assert index.process.pid is None
    assert index.names(Path("/"), "one") == set()
    index.process.changed(["/a.py"])


def test_a_worker_that_dies_is_an_index_that_knows_nothing(index: Indexed, tmp_path: Path) -> None:
    index.process.open([IndexRoot(tree(tmp_path, {"a.py": "def one(): ..."}))], Limits())
    index.wait(files=1)
    worker = index.process.pid
    assert worker is not None
    psutil.Process(worker).kill()
    assert index.names(tmp_path, "one") == set()


LATE = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message["do"] == "lookup":
        sys.stdin.readline()
        print(json.dumps({"id": message["id"], "found": []}), flush=True)
"""


def test_an_answer_that_comes_too_late_is_told(tmp_path: Path) -> None:
    came = threading.Event()
    process = IndexProcess(command=(sys.executable, "-c", LATE), late=came.set)
    process.open([IndexRoot(tmp_path)], Limits())
    try:
        assert process.lookup(Query(str(tmp_path), "a.py", "python", "", (), (0, 0)), timeout=0.01) == ()
        assert not came.is_set()
        process.changed([])
        assert came.wait(SECONDS)
    finally:
        process.close()


def test_J1_it_ends_with_the_server_however_that_ends(tmp_path: Path) -> None:
    code = (
        "import sys, time, pathlib\n"
        "from mercury_lsp.workspace.index import Limits\n"
        "from mercury_lsp.workspace.index_process import IndexProcess, IndexRoot\n"
        "process = IndexProcess()\n"
        f"process.open([IndexRoot(pathlib.Path({str(tmp_path)!r}))], Limits())\n"
        "print(process.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    server = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=server_env())
    assert server.stdout is not None
    with server.stdout:
        worker = psutil.Process(int(server.stdout.readline()))
    server.kill()
    server.wait()
    psutil.wait_procs([worker], timeout=SECONDS)
    assert not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE


def test_modules_in_the_users_folder_are_not_imported(tmp_path: Path) -> None:
    tree(tmp_path, {"tree_sitter.py": "open('imported', 'w')", "psutil.py": "open('imported', 'w')"})
    code = (
        "import pathlib, threading\n"
        "from mercury_lsp.workspace.index import Limits\n"
        "from mercury_lsp.workspace.index_process import IndexProcess, IndexRoot\n"
        "done = threading.Event()\n"
        "process = IndexProcess(lambda p: p.done and done.set())\n"
        "process.open([IndexRoot(pathlib.Path.cwd())], Limits())\n"
        f"assert done.wait({SECONDS})\n"
        "process.close()\n"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, env=server_env(), check=False)
    assert done.returncode == 0
    assert not (tmp_path / "imported").exists()
