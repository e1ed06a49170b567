"""Random one-token faults in ordinary files, mended by the grammar alone: how often the old text is restored.

    python -m tests.lsp.random_faults [SEED]

A punctuation mark is lost or doubled, or two letters of a keyword are swapped, in the project's own sources and in the
files of tests/data. "restored" means character for character; "no error left" by tree-sitter and Python's parser.
"""

import random
import re
import sys
from collections import Counter
from pathlib import Path

from mercury_lsp import syntax
from mercury_lsp.actions import faults
from mercury_lsp.actions.repair import repair
from mercury_lsp.diffs import Hunk, apply
from mercury_lsp.text import Document, Span, language_of

ROOT = Path(__file__).parents[2]
LANGUAGES = ("python", "javascript", "typescript", "rust", "go")
N = 60


def sources() -> dict[str, list[Path]]:
    paths = [*ROOT.glob("mercury_lsp/**/*.py"), *ROOT.glob("editors/**/src/*.ts"), *ROOT.glob("tests/data/*/*.*")]
    paths += ROOT.glob("tests/data/faults/*/right.*")
    found: dict[str, list[Path]] = {}
    for path in sorted(set(paths)):
        language = language_of(path.name)
        if language in LANGUAGES and path.suffix != ".case":
            found.setdefault(language, []).append(path)
    return found


def broken(text: str, language: str, rng: random.Random) -> tuple[str, int] | None:
    """(the text with one fault, where it is); None if what came out is no syntax error."""
    keywords = {word for word in syntax.anonymous_tokens(language) if re.fullmatch("[a-z]{4,}", word)}
    found = re.finditer(r"[:(){}\[\],;\"']|[a-z]{4,}", text)
    tokens = [m for m in found if not m.group().isalpha() or m.group() in keywords]
    if not tokens:
        return None
    token = rng.choice(tokens)
    word = token.group()
    at = rng.randrange(len(word) - 1) if word.isalpha() else 0
    swapped = word[:at] + word[at + 1] + word[at] + word[at + 2 :] if word.isalpha() else ""
    new = swapped or (word * 2 if rng.random() < 0.3 else "")
    changed = text[: token.start()] + new + text[token.end() :]
    before, after = faults.count(text, language), faults.count(changed, language)
    return (changed, token.start()) if before and after and not before.total and after.total else None


def alone(document: Document, near: Span | None) -> Hunk | None:
    """The repair with a model that never has an answer."""
    work = repair(document, near)
    try:
        while True:
            work.send(None)
    except StopIteration as end:
        return end.value


def main() -> int:
    rng = random.Random(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    print("| language | faults | restored | no error left | more errors than before |\n|---|---|---|---|---|")
    for language, paths in sources().items():
        seen: Counter[str] = Counter()
        for _ in range(20 * N):
            text = rng.choice(paths).read_text()
            fault = broken(text, language, rng)
            if fault is None:
                continue
            document = Document("file:///fault", 1, language, fault[0])
            hunk = alone(document, Span(fault[1], fault[1]) if rng.random() < 0.5 else None)
            result = apply(document.text, (hunk,)) if hunk is not None else document.text
            before, after = faults.count(document.text, language), faults.count(result, language)
            assert before is not None and after is not None
            seen.update(n=1, restored=result == text, clean=after.total == 0, worse=after.total > before.total)
            if seen["n"] == N:
                break
        print(f"| {language} | {seen['n']} | {seen['restored']} | {seen['clean']} | {seen['worse']} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
