"""The training corpus from archive to example, on packages made up here: no network, no real weights."""

import gzip
import io
import json
import lzma
import random
import sys
import tarfile
import zipfile
from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from mercury_model.convert import SPLIT
from mercury_model.tokens import Tokens

TRAIN = Path(__file__).parents[2] / "model" / "train"
sys.path.insert(0, str(TRAIN))

import corpus  # noqa: E402  (scripts, not a package: found by their folder)
from examples import (  # noqa: E402
    MAX_CHARS,
    WEIGHTS,
    Example,
    corrupt,
    examples,
    fim_sequence,
    head_window,
    middles,
    tail_window,
)
from shards import Row, open_shards, write_shards  # noqa: E402
from sources import (  # noqa: E402
    REFUSALS,
    Copies,
    File,
    Overlap,
    declared_licence,
    members,
    permissive,
    refusal,
    sources,
)

SPECIAL = ("<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|file_sep|>")

PYTHON = '''"""Accounts, and what can be done to them."""

import math


class Account:
    """Money that somebody owns; never negative."""

    def __init__(self, owner, balance=0):
        self.owner = owner
        self.balance = balance

    def withdraw(self, amount, reason="cash"):
        if amount > self.balance:
            raise ValueError(f"{self.owner} has only {self.balance}")
        self.balance -= amount
        return {"owner": self.owner, "reason": reason, "left": self.balance}


def interest(account, rate, years):
    total = account.balance
    for year in range(years):
        total = total * (1 + rate)
        if year % 10 == 9:
            total = math.floor(total)
    return round(total - account.balance, 2)
'''

OTHER = '''"""Where ships are and when they arrive."""

from dataclasses import dataclass


@dataclass
class Ship:
    name: str
    speed: float
    distance: float

    def arrival(self, now):
        hours = self.distance / max(self.speed, 0.1)
        return now + hours * 3600


def fleet(ships, now):
    waiting = sorted(ships, key=lambda ship: ship.arrival(now))
    names = [ship.name.title() for ship in waiting if ship.speed]
    return ", ".join(names) or "nobody is coming"
'''

RUST = """use std::fmt;

/// A point of the plane.
pub struct Point { pub x: f64, pub y: f64 }

impl Point {
    pub fn norm(&self) -> f64 {
        let square = self.x * self.x + self.y * self.y;
        if square > 0.0 { square.sqrt() } else { 0.0 }
    }

    pub fn scaled(&self, by: f64) -> Point {
        Point { x: self.x * by, y: self.y * by }
    }
}
"""

SCRIPT = """import { open } from "files";

export function total(items, rate = 1.5) {
  let sum = 0;
  for (const item of items) {
    sum += item.price * rate;
  }
  return { sum, mean: sum / Math.max(items.length, 1) };
}
"""

SOLUTION = {
    "prompt": "def rolling_max(numbers):\n",
    "canonical_solution": "    running_max = None\n    result = []\n    for n in numbers:\n",
    "suffix": "        running_max = n if running_max is None else max(running_max, n)\n"
    "        result.append(running_max)\n    return result\n",
}


def program(task: dict[str, str]) -> str:
    return task["prompt"] + task["canonical_solution"] + task["suffix"]


def wheel(path: Path, files: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as bundle:
        for name, text in files.items():
            bundle.writestr(name, text)
    return path


def tar(files: dict[str, str]) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as bundle:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            bundle.addfile(info, io.BytesIO(text.encode()))
        link = tarfile.TarInfo("./link.py")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        bundle.addfile(link)
    return data.getvalue()


def deb(path: Path, files: dict[str, str]) -> Path:
    body = lzma.compress(tar(files))
    parts = ((b"debian-binary", b"2.0\n"), (b"control.tar.gz", b"odd"), (b"data.tar.xz", body))
    data = b"!<arch>\n"
    for name, content in parts:
        data += name.ljust(48) + str(len(content)).encode().ljust(10) + b"`\n" + content
        data += b"\n" * (len(content) % 2)
    path.write_bytes(data)
    return path


@pytest.fixture(scope="module")
def tokenizer_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A byte-level BPE with a few merges and the special tokens of the real one at the end."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator([PYTHON, OTHER, RUST, SCRIPT], trainer)
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in SPECIAL])
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    tokenizer.save(str(path))
    return path


@pytest.fixture(scope="module")
def tokens(tokenizer_file: Path) -> Tokens:
    return Tokens(tokenizer_file)


# archives


def test_every_kind_of_archive_gives_its_regular_files(tmp_path: Path) -> None:
    files = {"a/one.py": "x = 1\n", "two.rs": "fn f() {}\n"}
    tgz = tmp_path / "p-1.tgz"
    tgz.write_bytes(gzip.compress(tar(files)))
    folder = tmp_path / "library"
    (folder / "a").mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    expected = {name: text.encode() for name, text in files.items()}
    dotted = {f"./{name}": text for name, text in files.items()}
    assert dict(members(wheel(tmp_path / "p-1-py3-none-any.whl", files))) == expected
    assert dict(members(tgz)) == expected
    assert dict(members(deb(tmp_path / "p_1_all.deb", dotted))) == expected
    assert dict(members(folder)) == expected
    assert dict(members(folder, skip=("a/",))) == {"two.rs": b"fn f() {}\n"}


@pytest.mark.parametrize("name", ["p.whl", "p.tgz", "p.deb", "p.exe", "missing.whl"])
def test_an_unreadable_archive_is_named_with_the_remedy(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if not name.startswith("missing"):
        path.write_bytes(b"\x1f\x8b half a download")
    with pytest.raises(ValueError, match="delete it and run this again"):
        list(members(path))


def test_sources_are_text_of_known_languages_and_headers_are_read() -> None:
    found = sources(
        [
            ("p/a.py", b"\xef\xbb\xbfx = 1\r\ny = 2\r\n"),
            ("p/latin.py", b"# \xe9\n"),
            ("p/logo.png", b"x"),
            ("p/c.h", b"int f(void);\n"),
            ("p/cpp.h", b"namespace a { int f(); }\n"),
            ("bin/tool", b"#!/usr/bin/env bash\necho hi\n"),
        ]
    )
    assert [(file.path, file.language) for file in found] == [
        ("bin/tool", "bash"),
        ("p/a.py", "python"),
        ("p/c.h", "c"),
        ("p/cpp.h", "cpp"),
    ]


def test_a_folder_with_a_copyleft_licence_of_its_own_is_left_out() -> None:
    found = sources(
        [
            ("p/LICENSE", b"MIT License\n\nPermission is hereby granted\n"),
            ("p/ours.py", b"x = 1\n"),
            ("p/theirs/COPYING", b"\n        GNU GENERAL PUBLIC LICENSE\n   Version 3\n"),
            ("p/theirs/deep/gpl.py", b"x = 1\n"),
            ("p/theirs_not/mit.py", b"x = 1\n"),
        ]
    )
    assert [file.path for file in found] == ["p/ours.py", "p/theirs_not/mit.py"]


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("Apache-2.0 AND MIT", True),
        ("(MIT OR GPL-3.0-only)", True),
        ("GPL-2.0-only AND MIT", False),
        ("MPL-2.0", False),
        ("", False),
    ],
)
def test_permissive_reads_spdx_expressions(expression: str, allowed: bool) -> None:
    assert permissive(expression) is allowed


def test_the_declared_licence_is_read_where_the_package_says_it() -> None:
    assert declared_licence([("package/package.json", b'{"license": "ISC"}')]) == "ISC"
    assert declared_licence([("p-1.dist-info/METADATA", b"Name: p\nLicense-Expression: MIT\n")]) == "MIT"
    assert declared_licence([("p/x.py", b"License-Expression: MIT\n")]) == ""


# what is learned from

REFUSED = {
    "tiny": File("a.py", "python", "x = 1\n"),
    "foreign folder": File("p/node_modules/q/a.js", "javascript", SCRIPT),
    "declarations": File("p/a.d.ts", "typescript", SCRIPT),
    "binary": File("a.py", "python", PYTHON + "\0"),
    "minified": File("a.js", "javascript", SCRIPT + "let a=1;" * 200),
    "generated": File("a.py", "python", "# Generated by the compiler. DO NOT EDIT\n" + PYTHON),
    "licence": File("a.py", "python", "# under the terms of the GNU General Public License\n" + PYTHON),
    "flow types": File("a.js", "javascript", "// @flow strict\n" + SCRIPT),
    "special tokens": File("a.py", "python", PYTHON + 'END = "<|endoftext|>"\n'),
    "data": File("a.py", "python", "t = [\n" + "".join(f"  {n}, {n * 7},\n" for n in range(90)) + "]\n"),
    "repetitive": File("a.py", "python", "def f(x):\n" + "    x = transform(x)\n" * 120),
}


@pytest.mark.parametrize("reason", REFUSALS)
def test_each_refusal_has_a_file_that_it_alone_leaves_out(reason: str) -> None:
    assert refusal(REFUSED[reason]) == reason


@pytest.mark.parametrize("text", [PYTHON, OTHER, RUST, SCRIPT])
def test_ordinary_code_is_not_refused(text: str) -> None:
    assert refusal(File("src/a.py", "python", text)) == ""


def test_copies_are_found_after_reformatting_and_with_additions() -> None:
    copies = Copies()
    assert not copies.is_copy(PYTHON)
    assert copies.is_copy(PYTHON)
    assert copies.is_copy(PYTHON.replace("    ", "\t").replace("\n\n", "\n\n\n"))
    assert copies.is_copy(PYTHON.replace("import math", "import math, os") + "\n\ndef more():\n    return 1\n")
    assert not copies.is_copy(OTHER)


def test_overlap_sees_a_benchmark_function_inside_a_file_however_it_is_indented() -> None:
    overlap = Overlap([program(SOLUTION)])
    inside = "class Tools:\n" + "".join("    " + line + "\n" for line in program(SOLUTION).splitlines())
    assert overlap.matches(OTHER + inside + PYTHON)
    assert not overlap.matches(OTHER + PYTHON)
    assert not overlap.matches("")


def test_runs_of_few_different_words_do_not_count_as_overlap() -> None:
    assert not Overlap(["f([1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0])"]).matches("g([0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0])")


# the whole of it


def test_the_manifest_is_permissive_and_holds_out_every_main_language() -> None:
    packages = corpus.read_manifest(TRAIN / "manifest.toml")
    assert len({package.key for package in packages}) == len(packages) > 100
    heldout = {language for package in packages if package.heldout for language in package.languages}
    assert heldout >= {"python", "javascript", "typescript", "tsx", "rust", "go", "java", "c", "cpp", "bash"}
    share = sum(package.heldout for package in packages) / len(packages)
    assert 0.03 <= share <= 0.15
    assert packages[0].heldout
    assert not packages[-1].heldout


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ('licence = "GPL-3.0-only"\nlanguages = ["python"]', "allowed are"),
        ('languages = ["python"]', "incomplete"),
        ('licence = "MIT"', "incomplete"),
    ],
)
def test_a_bad_row_of_the_manifest_is_refused(tmp_path: Path, row: str, complaint: str) -> None:
    path = tmp_path / "manifest.toml"
    path.write_text(f'[[package]]\nname = "p"\nversion = "1"\nregistry = "pypi"\n{row}\n')
    with pytest.raises(ValueError, match=complaint):
        corpus.read_manifest(path)


def test_a_package_that_declares_another_licence_is_refused(tmp_path: Path) -> None:
    archive = wheel(tmp_path / "p-1-py3-none-any.whl", {"p-1.dist-info/METADATA": "License-Expression: GPL-2.0\n"})
    package = corpus.Package("p", "1", "pypi", "MIT", ("python",))
    with pytest.raises(ValueError, match="take it out of the manifest"):
        corpus.read_package(package, archive)


def test_the_cap_takes_from_all_over_the_package_and_the_same_every_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = OTHER.split()
    files = {
        f"p/{n}.py": "".join(f"{word!r}  # of {n}, number {k}\n" for k, word in enumerate(words)) for n in range(9)
    }
    archive = wheel(tmp_path / "p-1-py3-none-any.whl", files)
    package = corpus.Package("p", "1", "pypi", "MIT", ("python",))
    monkeypatch.setitem(corpus.CAPS, "python", 3 * len(files["p/0.py"]))
    refused = Counter[str]()
    once, again = (
        [file.path for kept in corpus.choose([(package, archive)], Overlap([]), refused) for file in kept.files]
        for _ in range(2)
    )
    assert once == again
    assert len(once) == 3
    assert once != sorted(files)[:3]
    assert refused == {"over the cap": 12}


@pytest.fixture
def workshop(tmp_path: Path, tokenizer_file: Path) -> tuple[Path, Path, Path, Path]:
    """(manifest, folder with archives, tokenizer, benchmark) of a corpus of three packages, one of them absent."""
    folder, benchmark = tmp_path / "corpus", tmp_path / "benchmark"
    (folder / "archives").mkdir(parents=True)
    benchmark.mkdir()
    with gzip.open(benchmark / "Tasks.jsonl.gz", "wt") as file:
        file.write(json.dumps(SOLUTION) + "\n")
    wheel(
        folder / "archives" / "my_bank-1.0-py3-none-any.whl",
        {
            "bank/account.py": PYTHON,
            "bank/copied.py": OTHER + "# a line more\n",
            "bank/task.py": program(SOLUTION) + OTHER.replace("ship", "boat"),
            "bank/notes.json": json.dumps({"ignored": True}),
        },
    )
    (folder / "archives" / "scope-geo-2.1.0.tgz").write_bytes(
        gzip.compress(tar({"package/src/point.rs": RUST, "package/ships.py": OTHER}))
    )
    manifest = tmp_path / "manifest.toml"
    manifest.write_text(
        "".join(
            f'[[package]]\nname = "{name}"\nversion = "{version}"\nregistry = "{registry}"\n'
            f'licence = "MIT"\nlanguages = {languages}\n{more}\n'
            for name, version, registry, languages, more in (
                ("my-bank", "1.0", "pypi", '["python"]', ""),
                ("@scope/geo", "2.1.0", "npm", '["rust", "python"]', "heldout = true"),
                ("absent", "1", "npm", '["python"]', ""),
            )
        )
    )
    return manifest, folder, tokenizer_file, benchmark


def test_build_splits_by_package_drops_copies_and_overlap_and_keeps_every_byte(
    workshop: tuple[Path, Path, Path, Path],
    tokens: Tokens,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PATH", "")
    list(corpus.build(*workshop))
    shards = open_shards(workshop[1])
    found = {
        (row.split, row.package, row.path): tokens.decode(shards.tokens[row.offset : row.offset + row.n].tolist())
        for row in shards.rows
    }
    assert found == {
        ("heldout", "@scope/geo", "package/src/point.rs"): RUST,
        ("heldout", "@scope/geo", "package/ships.py"): OTHER,
        ("train", "my-bank", "bank/account.py"): PYTHON,
    }
    index = json.loads((workshop[1] / "index.json").read_text())
    assert index["missing"] == ["npm:absent==1"]
    assert index["refused"]["copy"] == 1
    assert index["refused"]["overlaps the benchmark"] == 1
    assert "skipped npm:absent==1" in capsys.readouterr().err


def test_a_second_build_tokenises_nothing_again_and_gives_the_same(
    workshop: tuple[Path, Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    list(corpus.build(*workshop))
    folder = workshop[1]
    first = (folder / "tokens.bin").read_bytes(), (folder / "index.json").read_text()
    before = {path: path.stat().st_mtime_ns for path in (folder / "tokens").iterdir()}
    list(corpus.build(*workshop))
    assert {path: path.stat().st_mtime_ns for path in (folder / "tokens").iterdir()} == before
    assert ((folder / "tokens.bin").read_bytes(), (folder / "index.json").read_text()) == first


def test_a_benchmark_folder_without_tasks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="give the benchmark's folder"):
        corpus.benchmark_texts(tmp_path)


def test_the_summary_counts_tokens_by_language_and_split() -> None:
    rows = [Row(0, 900, "python", "p", "train", "a"), Row(900, 100, "rust", "q", "heldout", "b")]
    lines = [line.split() for line in corpus.summary(rows).splitlines()]
    assert lines[1:] == [
        ["python", "1", "900", "0", "90.0%"],
        ["rust", "1", "0", "100", "10.0%"],
        ["all", "2", "900", "100", "10.0%", "held", "out"],
    ]


def test_a_corpus_without_tokens_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="every file was refused"):
        write_shards(tmp_path, [], "", {})
    assert not (tmp_path / "index.json").exists()


@pytest.mark.parametrize("damage", ["index.json", "tokens.bin"])
def test_a_damaged_corpus_is_refused_with_the_remedy(tmp_path: Path, damage: str) -> None:
    write_shards(tmp_path, [(Row(0, 0, "python", "p", "train", "a.py"), np.arange(9, dtype=np.uint32))], "", {})
    (tmp_path / damage).write_bytes(b"\1\2\3\4")
    with pytest.raises(ValueError, match=r"build it with model/train/corpus\.py"):
        open_shards(tmp_path)


# examples


@pytest.mark.parametrize(
    ("language", "text"), [("python", PYTHON), ("rust", RUST), ("javascript", SCRIPT), ("python", "é" * 9 + PYTHON)]
)
def test_every_kind_of_middle_is_found_in_code_and_lies_in_the_text(language: str, text: str) -> None:
    found = middles(text, language, random.Random(0), 400)
    assert {middle.kind for middle in found} == set(WEIGHTS)
    assert all(0 <= m.start < m.end <= min(len(text), m.start + MAX_CHARS) for m in found)


def test_an_unknown_language_still_has_lines_and_random_middles() -> None:
    kinds = Counter(middle.kind for middle in middles(PYTHON, "cobol", random.Random(0), 200))
    assert set(kinds) == {"line", "lines", "random"}


def test_nodes_are_whole_units_most_of_the_time() -> None:
    found = middles("f(alpha, beta)\n", "python", random.Random(1), 300)
    arguments = Counter("f(alpha, beta)"[m.start : m.end] for m in found if m.kind == "argument")
    assert {text for text, _ in arguments.most_common(2)} == {"alpha", "beta"}


def test_the_middle_of_a_braced_block_is_what_stands_between_the_braces() -> None:
    text = "function f() { return 1; }\n"
    found = {text[m.start : m.end] for m in middles(text, "javascript", random.Random(2), 200) if m.kind == "block"}
    assert " return 1; " in found
    assert all("{" not in piece and "}" not in piece for piece in found)


@pytest.mark.parametrize("text", ["", "\n\n  \n"])
def test_text_without_code_has_no_middles(text: str) -> None:
    assert middles(text, "python", random.Random(0), 5) == []


def test_middles_stand_where_they_were_asked_for() -> None:
    found = middles(PYTHON, "python", random.Random(3), 300, within=(200, 500))
    assert {middle.kind for middle in found} == set(WEIGHTS)
    assert all(200 <= middle.start < 500 + MAX_CHARS for middle in found)
    assert min(m.start for m in found) < 260
    assert max(m.start for m in found) > 460


@pytest.mark.parametrize("budget", [1, 7, 30, 80, 10_000])
def test_windows_keep_to_the_budget_and_to_line_boundaries(tokens: Tokens, budget: int) -> None:
    ids = tokens.encode(PYTHON)
    tail, head = tail_window(ids, budget, tokens), head_window(ids, budget, tokens)
    assert 0 < max(len(tail), len(head)) <= budget
    tail_text, head_text = tokens.decode(tail), tokens.decode(head)
    assert PYTHON.endswith(tail_text)
    assert PYTHON.startswith(head_text)
    if budget >= 30:
        assert PYTHON[: len(PYTHON) - len(tail_text)][-1:] in ("", "\n")
        assert head_text.endswith("\n")
        assert (tokens.encode(tail_text), tokens.encode(head_text)) == (tail, head)
        assert min(len(tail), len(head)) >= min(budget // 3, len(ids))


def layout(example: Example, tokens: Tokens) -> tuple[str, str, str]:
    """(prefix, middle, suffix) read back from the ids, which are in the one layout."""
    ids = list(example.ids)
    assert ids[:2] == [tokens.fim_prefix, tokens.fim_suffix]
    assert ids[-1] == tokens.end
    cut = ids.index(tokens.fim_middle)
    return (
        tokens.decode(ids[cut + 1 : example.middle_start]),
        tokens.decode(example.middle),
        tokens.decode(ids[2:cut]),
    )


def test_the_sequence_is_suffix_first_and_loses_nothing_that_fits(tokens: Tokens) -> None:
    texts = ("def f(a):\n    ret", "urn a", "\n\nprint(f(1))\n")
    assert layout(fim_sequence(*texts, tokens, 200), tokens) == texts


@pytest.mark.parametrize(("before", "after"), [(1, 1), (1, 0), (0, 1), (0, 0)])
def test_a_long_context_is_cut_and_what_one_side_leaves_the_other_uses(tokens: Tokens, before: int, after: int) -> None:
    prefix, suffix = PYTHON * 3 * before + "x = ", "\n" + PYTHON * 3 * after
    example = fim_sequence(prefix, "1", suffix, tokens, 300)
    kept_prefix, middle, kept_suffix = layout(example, tokens)
    assert (middle, example.middle_start <= 300) == ("1", True)
    assert prefix.endswith(kept_prefix)
    assert suffix.startswith(kept_suffix)
    if before or after:
        assert example.middle_start > 220
    if before and after:
        assert tokens.count(kept_prefix) > tokens.count(kept_suffix) > 50


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, tokens: Tokens) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    parts = [
        (Row(0, 0, language, "p", split, path), np.array(tokens.encode(text), np.uint32))
        for language, split, path, text in (
            ("python", "train", "a.py", PYTHON * 4),
            ("rust", "heldout", "b.rs", RUST),
            ("javascript", "train", "c.js", SCRIPT),
        )
    ]
    write_shards(folder, parts, "", {})
    return folder


def test_examples_resume_at_any_position_and_are_shared_by_steps(built: Path, tokens: Tokens) -> None:
    shards = open_shards(built)
    whole = list(islice(examples(shards, 7, tokens=tokens), 24))
    assert list(islice(examples(shards, 7, 11, tokens=tokens), 13)) == whole[11:]
    assert list(islice(examples(shards, 7, 1, tokens=tokens, step=3), 8)) == whole[1::3]
    assert list(islice(examples(shards, 8, tokens=tokens), 24)) != whole


def test_examples_are_true_pieces_of_the_splits_files(built: Path, tokens: Tokens) -> None:
    shards = open_shards(built)
    for example in islice(examples(shards, 1, tokens=tokens, max_context=160, max_middle=40), 60):
        text = {"python": PYTHON * 4, "javascript": SCRIPT}[example.language]
        assert "".join(layout(example, tokens)) in text
        assert 1 <= len(example.middle) <= 40
        assert example.middle_start <= 160
    heldout = islice(examples(shards, 1, tokens=tokens, split="heldout"), 20)
    assert {example.language for example in heldout} == {"rust"}


def test_an_empty_split_is_refused(built: Path, tokens: Tokens) -> None:
    with pytest.raises(ValueError, match="no nowhere files"):
        next(examples(open_shards(built), 0, tokens=tokens, split="nowhere"))


def test_corrupted_code_fills_the_same_slots_with_known_tokens() -> None:
    ids, pool, fill = list(range(100, 164)), [7, 8, 9], 1
    changed = [corrupt(ids, random.Random(seed), pool, fill) for seed in range(50)]
    assert changed == [corrupt(ids, random.Random(seed), pool, fill) for seed in range(50)]
    assert all(len(noisy) == len(ids) and set(noisy) <= {*ids, *pool, fill} for noisy in changed)
    assert all(noisy != ids for noisy in changed)
    kept = sum(a == b for noisy in changed for a, b in zip(noisy, ids, strict=True)) / (50 * len(ids))
    assert 0.05 < kept < 0.95


def test_a_stale_name_is_stale_everywhere() -> None:
    ids = [5, 6, 5, 6, 5, 6]
    outcomes = {tuple(corrupt(ids, random.Random(seed), [9], 1, rate=0.01)) for seed in range(200)}
    assert {(9, 6, 9, 6, 9, 6), (5, 9, 5, 9, 5, 9)} <= outcomes


def test_nothing_can_be_corrupted_to_nothing() -> None:
    assert corrupt([], random.Random(0), [], 1) == []
