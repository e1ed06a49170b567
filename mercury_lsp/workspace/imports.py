"""Where a file's imports may lead, as endings of paths: one function per language in a table.

It reads the text with regular expressions, so that a broken line hides nothing but itself. It never looks at a disk:
which of the paths exist is for the index to say.
"""

import posixpath
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mercury_lsp.languages import grammar_of

MAX_TARGETS = 400
_HEAD = 200_000  # characters looked at: imports stand near the top


@dataclass(frozen=True, slots=True)
class Target:
    """path: of a file, or of a folder whose files are meant; whole, or the end of it, without a leading slash."""

    path: str
    folder: bool = False


def imported(text: str, path: str, language: str) -> tuple[Target, ...]:
    """What the imports of a text may mean, the likeliest first. path: of the text, relative to its root."""
    family = grammar_of(language).family or grammar_of(language).name
    finder = _FINDERS.get(family)
    if finder is None:
        return ()
    found: dict[Target, None] = {}
    for target in finder(text[:_HEAD], path):
        if target.path and not target.path.startswith(".."):
            found[target] = None
            if len(found) == MAX_TARGETS:
                break
    return tuple(found)


def _joined(folder: str, relative: str) -> str:
    return posixpath.normpath(posixpath.join(folder, relative))


_PY_FROM = re.compile(r"^[ \t]*from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)", re.MULTILINE)
_PY_IMPORT = re.compile(r"^[ \t]*import[ \t]+([\w., \t]+)", re.MULTILINE)


def _python(text: str, path: str) -> Iterator[Target]:
    folder = posixpath.dirname(path)
    for dots, module, names in _PY_FROM.findall(text):
        base = folder
        for _ in dots[1:]:
            base = posixpath.dirname(base)
        stem = module.replace(".", "/")
        stem = posixpath.join(base, stem) if dots else stem
        yield from _python_module(stem)
        for name in re.findall(r"(?:^|[,(\n])\s*(\w+)", names):
            yield from _python_module(posixpath.join(stem, name))
    for modules in _PY_IMPORT.findall(text):
        for module in re.findall(r"(?:^|,)\s*([\w.]+)", modules):
            yield from _python_module(module.replace(".", "/"))


def _python_module(stem: str) -> Iterator[Target]:
    if stem:
        yield from (Target(f"{stem}.py"), Target(f"{stem}/__init__.py"), Target(f"{stem}.pyi"))


_JS = re.compile(r"""(?:\bfrom|\bimport|\brequire\s*\(|\bimport\s*\()\s*["'`]([^"'`\n]+)["'`]""")
_JS_ENDINGS = (".ts", ".tsx", ".d.ts", ".js", ".jsx", ".mjs", "/index.ts", "/index.tsx", "/index.js", "/index.jsx")


def _javascript(text: str, path: str) -> Iterator[Target]:
    for name in _JS.findall(text):
        if name.startswith("."):
            stem = _joined(posixpath.dirname(path), name)
        elif name.startswith(("@/", "~/", "#/", "src/")):
            stem = name.split("/", 1)[1]  # the usual aliases of the source folder
        else:
            continue
        yield Target(stem)
        short = re.sub(r"\.[cm]?jsx?$", "", stem)  # an ES module names the .js that its .ts becomes
        for ending in _JS_ENDINGS:
            yield Target(short + ending)


_RUST_MOD = re.compile(r"^\s*(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*;", re.MULTILINE)
_RUST_USE = re.compile(r"\buse\s+([^;]+);")


def _rust(text: str, path: str) -> Iterator[Target]:
    folder, stem = posixpath.split(path)
    module = stem.removesuffix(".rs")
    inner = folder if module in ("mod", "lib", "main") else posixpath.join(folder, module)
    for name in _RUST_MOD.findall(text):
        yield from _rust_module(posixpath.join(inner, name))
    source = path[: path.index("src/") + 3] if "src/" in f"/{path}"[1:] else folder
    for use in _RUST_USE.findall(text):
        for names in _rust_paths("".join(use.split())):
            first, *rest = names
            if first == "crate":
                base = source
            elif first == "self":
                base = inner
            elif first == "super":
                base = posixpath.dirname(inner)
                while rest and rest[0] == "super":
                    base, rest = posixpath.dirname(base), rest[1:]
            elif first in ("std", "core", "alloc"):
                continue
            else:
                base = f"{first}/src"
                yield from (Target(f"{base}/lib.rs"), Target(f"{first.replace('_', '-')}/src/lib.rs"))
            for size in range(len(rest), 0, -1):
                yield from _rust_module(posixpath.join(base, *rest[:size]))
            if first in ("crate", "super", "self") and len(rest) <= 1:
                yield from (Target(posixpath.join(base, "lib.rs")), Target(posixpath.join(base, "mod.rs")))


def _rust_module(stem: str) -> Iterator[Target]:
    yield from (Target(f"{stem}.rs"), Target(f"{stem}/mod.rs"))


def _rust_paths(use: str, depth: int = 0) -> Iterator[list[str]]:
    """The paths of a use declaration: `a::{b, c::d}` is a::b and a::c::d."""
    head, brace, rest = use.partition("{")
    start = [part for part in re.split(r"::", re.sub(r"as\w+$", "", head)) if re.fullmatch(r"\w+", part)]
    if not brace:
        if start:
            yield start
        return
    level, item = 0, ""
    for char in f"{rest.rsplit('}', 1)[0]},":
        level += (char == "{") - (char == "}")
        if char == "," and level == 0:
            for names in _rust_paths(item, depth + 1) if depth < 4 else ():
                yield [*start, *names]
            item = ""
        else:
            item += char


_GO = re.compile(r"""(?:^\s*import\s+(?:[\w.]+\s+)?|^\s+(?:[\w.]+\s+)?)"([^"\n]+)"\s*$""", re.MULTILINE)


def _go(text: str, path: str) -> Iterator[Target]:
    yield Target(posixpath.dirname(path) or ".", folder=True)  # its own package
    for name in _GO.findall(text):
        parts = name.split("/")
        if "." in parts[0] or len(parts) > 1:
            for start in range(min(len(parts), 8)):
                if start == 0 or len(parts) - start >= 1:
                    yield Target("/".join(parts[start:]), folder=True)


_C = re.compile(r"""^\s*#\s*include\s*["<]([^">\n]+)[">]""", re.MULTILINE)


def _c(text: str, path: str) -> Iterator[Target]:
    folder = posixpath.dirname(path)
    for name in _C.findall(text):
        yield Target(_joined(folder, name))
        yield Target(re.sub(r"^(\.\./)+", "", name))


_JAVA = re.compile(r"^\s*import\s+(static\s+)?([\w.]+?)(\.\*)?\s*;", re.MULTILINE)


def _java(text: str, path: str) -> Iterator[Target]:
    yield Target(posixpath.dirname(path) or ".", folder=True)  # its own package
    for static, name, star in _JAVA.findall(text):
        parts = name.split(".")
        if star and not static:
            yield Target("/".join(parts), folder=True)
        else:
            yield Target("/".join(parts[:-1] if static and not star else parts) + ".java")


_BASH = re.compile(r"""^\s*(?:source|\.)\s+["']?(?:\$\{?\w+\}?/)?([\w./-]+)""", re.MULTILINE)
_CSS = re.compile(r"""@(?:import|use|forward)\s+(?:url\()?["']([^"']+)["']""")


def _bash(text: str, path: str) -> Iterator[Target]:
    for name in _BASH.findall(text):
        yield Target(_joined(posixpath.dirname(path), name))


def _css(text: str, path: str) -> Iterator[Target]:
    for name in _CSS.findall(text):
        yield Target(_joined(posixpath.dirname(path), name))


_FINDERS: dict[str, Callable[[str, str], Iterator[Target]]] = {
    "python": _python,
    "javascript": _javascript,
    "rust": _rust,
    "go": _go,
    "c": _c,
    "java": _java,
    "bash": _bash,
    "css": _css,
}
