"""The symbol index: definitions of every language, imports, what is looked up for a place, what is never read."""

from pathlib import Path

import pytest

from mercury_lsp.languages import GRAMMARS
from mercury_lsp.workspace.ignore import Ignore
from mercury_lsp.workspace.imports import imported
from mercury_lsp.workspace.index import Limits, Query, SymbolTable, index_file, read_symbols, walk
from mercury_lsp.workspace.symbols import MAX_SYMBOLS, SIGNATURE_CHARS, definitions

LIMITS = Limits()
DATA_LANGUAGES = {"html", "json"}

DEFINED = [
    ("python", "@dec\ndef f(a: int, *b) -> str:\n    x = 1\n", ["function f: def f(a: int, *b) -> str:"]),
    ("python", "X: int = 3\ntype Al = int\n", ["constant X: X: int = 3", "type Al: type Al = int"]),
    ("python", "class A(B):\n    z = 1\n    def m(self): ...\n",
     ["class A: class A(B):", "constant A.z: z = 1", "method A.m: def m(self):"]),
    ("python", "if T:\n    def f(): ...\nelse:\n    def g(): ...\n", ["function f: def f():", "function g: def g():"]),
    ("javascript", "export default function f(a) { const q = 1; }", ["function f: export function f(a)"]),
    ("javascript", "const a = 1, g = (x) => x;", ["constant a: const a = 1", "constant g: const g = (x) =>"]),
    ("javascript", "class A extends B { static m(a) { } }", ["class A: class A extends B", "method A.m: static m(a)"]),
    ("javascript", "exports.f = function (a) {};", ["constant f: exports.f = function (a)"]),
    ("typescript", "export interface I<T> { m(x: T): void }",
     ["class I: export interface I<T>", "method I.m: m(x: T): void"]),
    ("typescript", "type T = { a: 1 };\nenum E { A }", ["type T: type T = { a: 1 };", "type E: enum E { A }"]),
    ("typescript", "namespace N { export const q = 1 }", ["constant q: const q = 1"]),
    ("tsx", "export const C = (p: P): X => <a/>;", ["constant C: const C = (p: P): X =>"]),
    ("rust", "pub struct S<T> { a: T }", ["type S: pub struct S<T> { a: T }"]),
    ("rust", "impl<T> S<T> {\n    pub fn new(a: T) -> Self { }\n}", ["method S.new: pub fn new(a: T) -> Self"]),
    ("rust", "trait Tr { fn x(&self); }", ["class Tr: trait Tr", "method Tr.x: fn x(&self);"]),
    ("rust", "const K: u8 = 1;\nmacro_rules! m { () => {} }",
     ["constant K: const K: u8 = 1;", "macro m: macro_rules! m { () => {} }"]),
    ("go", "func (s *S) M(x int) string { return }", ["method S.M: func (s *S) M(x int) string"]),
    ("go", "type S struct { a int }\nconst (\n\tB = iota\n)",
     ["type S: type S struct { a int }", "constant B: const B = iota"]),
    ("java", "@Ann public class A<T> extends B { @Override public int m(int x) { } }",
     ["class A: public class A<T> extends B", "method A.m: public int m(int x)"]),
    ("java", "interface I { void q(); }", ["class I: interface I", "method I.q: void q();"]),
    ("c", "static char *g(void);\nint f(int a) { return 1; }\nextern int v;",
     ["function g: static char *g(void);", "function f: int f(int a)", "constant v: extern int v;"]),
    ("c", "typedef struct { int a; } T;\nstruct S;\n#ifdef X\n#define M(x) x\n#endif\n",
     ["type T: typedef struct { int a; } T;", "function M: #define M(x) x"]),
    ("cpp", "namespace n { class A : public B { int m() const; }; template <typename T> T f(T a) { } }",
     ["class A: class A : public B", "method A.m: int m() const;", "function f: template <typename T> T f(T a)"]),
    ("cpp", "int n::A::m2(int a) { return 1; }", ["function m2: int n::A::m2(int a)"]),
    ("bash", "f() { echo; }\nexport Y=2\n", ["function f: f()", "constant Y: export Y=2"]),
    ("css", ".a #c { color: red; }", ["rule a: .a #c", "rule c: .a #c"]),
]  # fmt: skip


@pytest.mark.parametrize(("language", "text", "expected"), DEFINED)
def test_definitions(language: str, text: str, expected: list[str]) -> None:
    found = definitions(text, language)
    assert sorted(f"{s.kind} {s.container + '.' if s.container else ''}{s.name}: {s.signature}" for s in found) == (
        sorted(expected)
    )


def test_every_language_has_a_row() -> None:
    assert {language for language, _, _ in DEFINED} | DATA_LANGUAGES == set(GRAMMARS)
    assert {name for name, row in GRAMMARS.items() if not row.definitions} == DATA_LANGUAGES


@pytest.mark.parametrize("language", sorted(GRAMMARS))
@pytest.mark.parametrize("text", ["", "((((", "\0\ud800", "é = {\r\n", "def f(:\n class", "x" * 10_000])
def test_broken_texts_never_raise(language: str, text: str) -> None:
    assert len(definitions(text, language)) <= 3
    assert len(imported(text, "a/b", language)) <= 3


def test_definitions_are_bounded() -> None:
    many = definitions("".join(f"def f{n}(): ...\n" for n in range(MAX_SYMBOLS + 10)), "python")
    assert len(many) == MAX_SYMBOLS
    (long,) = definitions(f"def f({', '.join(f'a{n}' for n in range(500))}):\n    pass\n", "python")
    assert len(long.signature) == SIGNATURE_CHARS


@pytest.mark.parametrize(
    ("language", "path", "text", "target"),
    [
        ("python", "a/b/c.py", "from x.y import z", "x/y.py"),
        ("python", "a/b/c.py", "from x import (\n    y,\n    z as q,\n)", "x/z.py"),
        ("python", "a/b/c.py", "from . import d", "a/b/d.py"),
        ("python", "a/b/c.py", "from ..e.f import g", "a/e/f.py"),
        ("python", "a/b/c.py", "import x.y as z, q.r", "q/r.py"),
        ("typescript", "src/app/x.ts", "import { a } from '../lib/y'", "src/lib/y.ts"),
        ("typescript", "src/app/x.ts", "import y from './y.js'", "src/app/y.ts"),
        ("javascript", "src/x.js", "const y = require('./y')", "src/y/index.js"),
        ("tsx", "src/x.tsx", "import y from '@/ui/y'", "ui/y.tsx"),
        ("rust", "src/lib.rs", "pub mod a;", "src/a.rs"),
        ("rust", "src/a.rs", "mod b;", "src/a/b.rs"),
        ("rust", "src/a/b.rs", "use crate::x::{y::Z, w};", "src/x/y.rs"),
        ("rust", "src/a/b.rs", "use super::c::D;", "src/a/c.rs"),
        ("rust", "app/src/main.rs", "use my_lib::a::B;", "my-lib/src/lib.rs"),
        ("go", "cmd/main.go", 'import (\n\t"fmt"\n\tq "example.com/mod/pkg/sub"\n)', "pkg/sub"),
        ("go", "cmd/main.go", "package main", "cmd"),
        ("c", "src/a.c", '#include "b.h"', "src/b.h"),
        ("cpp", "src/a.cpp", "#include <lib/b.hpp>", "lib/b.hpp"),
        ("java", "a/X.java", "import b.c.D;", "b/c/D.java"),
        ("java", "a/X.java", "import static b.c.D.m;", "b/c/D.java"),
        ("java", "a/X.java", "import b.c.*;", "b/c"),
        ("bash", "bin/x.sh", "source ./lib.sh", "bin/lib.sh"),
        ("css", "a/x.css", '@import url("y.css");', "a/y.css"),
    ],
)
def test_imports_lead_somewhere(language: str, path: str, text: str, target: str) -> None:
    assert target in [found.path for found in imported(text, path, language)]


def tree(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def table_of(root: Path, limits: Limits = LIMITS) -> SymbolTable:
    table, ignore = SymbolTable(), Ignore([root])
    for path in walk(root, ignore, limits):
        index_file(table, root, path, ignore, limits)
    return table


def ask(table: SymbolTable, root: Path, path: str, names: str, hidden: tuple[int, int] = (0, 0)) -> list[str]:
    file = root / path
    query = Query(str(root), path, path, file.read_text(), tuple((name, 1.0) for name in names.split()), hidden)
    return [f"{found.path}:{found.signature}" for found in table.lookup(query)]


PROJECT = {
    "app/main.py": "from lib.shapes import Circle\nimport lib.store\n\n\ndef run():\n    pass\n",
    "app/other.py": "class Circle:\n    pass\n",
    "lib/shapes.py": "class Circle:\n    def area(self) -> float:\n        return 0.0\n\n\nLIMIT = 3\n",
    "lib/store.py": "def save(item: object) -> None: ...\n",
    "web/shapes.ts": "export class Circle {}\n",
}


def test_what_is_imported_comes_before_what_only_has_the_name(tmp_path: Path) -> None:
    table = table_of(tree(tmp_path, PROJECT))
    assert ask(table, tmp_path, "app/main.py", "Circle") == [
        "lib/shapes.py:class Circle:",
        "app/other.py:class Circle:",
        "lib/shapes.py:def area(self) -> float:",
    ]
    assert ask(table, tmp_path, "app/main.py", "save LIMIT nothing") == [
        "lib/shapes.py:LIMIT = 3",
        "lib/store.py:def save(item: object) -> None:",
    ]


def test_own_definitions_are_found_where_they_are_not_shown(tmp_path: Path) -> None:
    table = table_of(tree(tmp_path, PROJECT))
    assert ask(table, tmp_path, "lib/shapes.py", "LIMIT", (0, 5)) == []
    assert ask(table, tmp_path, "lib/shapes.py", "LIMIT", (0, 3)) == ["lib/shapes.py:LIMIT = 3"]


def test_common_names_and_members_of_types_not_in_sight_are_left_out(tmp_path: Path) -> None:
    files = {f"p{n}/m.py": "def get(): ...\nclass C:\n    def only(self): ...\n" for n in range(20)}
    table = table_of(tree(tmp_path, {**files, "main.py": ""}))
    assert ask(table, tmp_path, "main.py", "get") == []
    assert ask(table, tmp_path, "main.py", "only") == []


def test_a_file_is_updated_and_dropped(tmp_path: Path) -> None:
    root = tree(tmp_path, PROJECT)
    table, ignore = table_of(root), Ignore([root])
    before = table.n_symbols
    (root / "lib/store.py").write_text("def keep(): ...\ndef more(): ...\n")
    index_file(table, root, root / "lib/store.py", ignore, LIMITS)
    assert ask(table, root, "app/main.py", "save keep") == ["lib/store.py:def keep():"]
    assert table.n_symbols == before + 1
    (root / "lib/store.py").unlink()
    index_file(table, root, root / "lib/store.py", ignore, LIMITS)
    assert ask(table, root, "app/main.py", "keep") == []
    table.drop(str(root), "lib")
    assert table.paths(str(root)) == ["app/main.py", "app/other.py", "web/shapes.ts"]


def test_L1_K1_ignored_and_generated_files_are_never_read(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "a.py": "def a(): ...\n",
            "node_modules/x/b.js": "function b() {}",
            "build/c.py": "def c(): ...",
            "secrets.py": "CANARY = 1",
            ".mercuryignore": "private.py\n",
            "private.py": "def p(): ...",
            "min.js": "function m(){}" * 1000,
            "large.py": "def big(): ...\n" * 10_000,
        },
    )
    (root / "data.c").write_bytes(b"int x;\0\0")
    (root / "link.py").symlink_to(root / "secrets.py")
    limits = Limits(max_file_bytes=100_000)
    assert table_of(root, limits).paths(str(root)) == ["a.py"]
    assert read_symbols(root / "gone.py", limits) is None
    table = table_of(root, limits)
    for name in ("secrets.py", "private.py", "node_modules/x/b.js", "link.py"):
        index_file(table, root, root / name, Ignore([root]), limits)
    assert table.paths(str(root)) == ["a.py"]


def test_the_number_of_files_is_bounded_and_those_near_the_top_come_first(tmp_path: Path) -> None:
    root = tree(tmp_path, {f"{'d/' * depth}f{n}.py": "def f(): ...\n" for depth in range(4) for n in range(3)})
    assert table_of(root, Limits(max_files=5)).paths(str(root)) == ["d/f0.py", "d/f1.py", "f0.py", "f1.py", "f2.py"]
