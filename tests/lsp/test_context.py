"""What is shown of other places: which pieces, in which order, within the budget, and steady while the user types."""

import re
from collections.abc import Sequence

import pytest

from mercury_lsp.region import Budget, completion_region
from mercury_lsp.text import Document, Span
from mercury_lsp.workspace.context import Diagnostic, gather, size, used_names
from mercury_lsp.workspace.context_cache import FAR_LINES, ContextCache
from mercury_lsp.workspace.index import Declaration, Query
from mercury_lsp.workspace.recent_edits import EditRing
from mercury_model.draft import Snippet

ROOT = "file:///p/"


def count(text: str) -> int:
    return len(re.findall(r"\w+|[^\w\s]", text))


def locate(uri: str) -> tuple[str, str] | None:
    return None if "secret" in uri else ("/p", uri.removeprefix(ROOT))


def declared(path: str, signature: str, value: float = 8.0, container: str = "", line: int = 0) -> Declaration:
    return Declaration(path, "name", "function", container, line, line, signature, value)


MAIN = "import lib\n\n\ndef total(prices: list[int]) -> int:\n    result = 0\n    for price in prices:\n        ‸\n"
SIMILAR = "def other(prices):\n    result = 1\n    for price in prices:\n        result *= price\n    return result\n"


def shown(
    *,
    index: Sequence[Declaration] | None = None,
    ring: EditRing | None = None,
    others: Sequence[Document] = (),
    diagnostics: Sequence[Diagnostic] = (),
    budget: int = 200,
    kept: Sequence[Snippet] = (),
    uri: str = ROOT + "main.py",
    asked: list[Query] | None = None,
) -> list[tuple[str, str]]:
    cursor = MAIN.index("‸")
    document = Document(uri, 1, "python", MAIN.replace("‸", ""))
    region = completion_region(document, cursor, Budget(500, 500), count)
    assert region is not None

    def lookup(query: Query) -> Sequence[Declaration]:
        if asked is not None:
            asked.append(query)
        return index or ()

    found = gather(
        document, region, lookup if index is not None else None, ring.edits() if ring else (), others, diagnostics,
        budget, count, locate=locate, kept=kept,
    )  # fmt: skip
    assert size(found, count) <= budget
    return [(snippet.path, snippet.text) for snippet in found]


def edited(uri: str, old: str, new: str, before: str = "a = 1\nb = 2\nc = 3\n") -> EditRing:
    ring, document = EditRing(), Document(uri, 1, "python", before)
    start = before.index(old)
    ring.record(document, Span(start, start + len(old)), new, document.apply(Span(start, start + len(old)), new, 2), 0)
    return ring


def test_declarations_of_a_file_are_one_piece_with_members_below_their_type() -> None:
    index = [
        declared("lib.py", "def late():", line=30),
        declared("lib.py", "class Price:", line=3),
        declared("lib.py", "def add(self, other: int):", container="Price", line=5),
        declared("a.py", "def go(self):", container="Engine", line=1),
    ]
    assert shown(index=index) == [
        ("a.py", "# Engine\n    def go(self):"),
        ("lib.py", "class Price:\n    def add(self, other: int):\ndef late():"),
    ]


def test_the_index_is_asked_for_the_names_around_the_cursor() -> None:
    asked: list[Query] = []
    shown(index=[], asked=asked)
    (query,) = asked
    weights = dict(query.names)
    assert weights["price"] > weights["prices"] * 0.99 > weights["total"] > weights["lib"] > 0
    assert (query.root, query.path, query.language) == ("/p", "main.py", "python")
    assert query.hidden == (0, 7)
    assert query.text.startswith("import lib")


def test_edits_of_other_places_are_shown_with_the_lines_around() -> None:
    ring = edited(ROOT + "b.py", "b = 2", "b = 22")
    assert shown(ring=ring) == [("b.py", "b = 22")]
    now = Document(ROOT + "b.py", 2, "python", "a = 1\nb = 22\nc = 3\n")
    assert shown(ring=ring, others=[now]) == [("b.py", "a = 1\nb = 22\nc = 3")]


def test_what_the_window_shows_is_not_shown_twice() -> None:
    before = MAIN.replace("‸", "").replace("result = 0", "result = 1")
    assert shown(ring=edited(ROOT + "main.py", "result = 1", "result = 0", before)) == []


def test_similar_code_of_the_same_language_is_found_and_other_code_is_not() -> None:
    noise = "\n".join(f"unrelated_{n} = compute_{n}()" for n in range(60)) + "\n"
    document = Document(ROOT + "sum.py", 1, "python", noise + SIMILAR + noise)
    ((path, text),) = shown(others=[document])
    assert path == "sum.py"
    assert "result *= price" in text
    assert shown(others=[Document(ROOT + "sum.go", 1, "go", SIMILAR)]) == []
    assert shown(others=[Document(ROOT + "noise.py", 1, "python", noise)]) == []


def test_diagnostics_near_the_cursor_are_comments_and_stand_last() -> None:
    at = MAIN.index("result = 0")
    diagnostics = [Diagnostic(Span(at, at + 1), "unused\nname"), Diagnostic(Span(0, 1), "unresolved import")]
    assert shown(index=[declared("a.py", "def a():")], diagnostics=diagnostics) == [
        ("a.py", "def a():"),
        ("main.py", "# unresolved import: import lib\n# unused name: result = 0"),
    ]


@pytest.mark.parametrize("budget", [0, 3, 12, 25, 60, 150])
def test_the_budget_holds_and_the_most_valuable_comes_first(budget: int) -> None:
    index = [declared(f"f{n}.py", f"def function_{n}(a, b):", value=8.0 - n) for n in range(8)]
    found = shown(index=index, budget=budget, ring=edited(ROOT + "b.py", "b = 2", "b = 22"))
    names = [path for path, _ in found if path.startswith("f")]
    assert names == [f"f{n}.py" for n in range(len(names))]
    assert bool(found) == (budget >= 25)


def test_what_is_shown_stays_in_its_place_and_new_pieces_come_behind() -> None:
    kept = [Snippet("z.py", "def z():"), Snippet("gone.py", "def gone():")]
    index = [declared("a.py", "def a():"), declared("z.py", "def z():")]
    assert shown(index=index, kept=kept) == [("z.py", "def z():"), ("a.py", "def a():")]


def test_a_piece_that_is_shown_is_not_exchanged_for_one_that_is_hardly_better() -> None:
    index = [declared("a.py", "def aaa():", value=8.0), declared("z.py", "def zzz():", value=7.5)]
    fits_one = 20
    assert shown(index=index, budget=fits_one) == [("a.py", "def aaa():")]
    kept = [Snippet("z.py", "def zzz():")]
    assert shown(index=index, budget=fits_one, kept=kept) == [("z.py", "def zzz():")]


def test_L1_documents_that_must_not_be_shown_are_not() -> None:
    secret = Document(ROOT + "secret.py", 1, "python", SIMILAR)
    assert shown(others=[secret], ring=edited(secret.uri, "b = 2", "CANARY = 2")) == []
    assert shown(uri=secret.uri, index=[declared("a.py", "def a():")]) == []


def test_names_are_bounded_by_distance() -> None:
    text = "far = 1\n" + "\n" * 100 + "near = 1\n"
    names = dict(used_names(Document("u", 1, "python", text), len(text)))
    assert set(names) == {"near"}


class Gatherer:
    """A gather that counts, and a cache with a clock that is moved by hand."""

    def __init__(self) -> None:
        self.now, self.made = 0.0, 0
        self.cache = ContextCache(lambda: self.now)

    def get(self, line: int = 0, key: str = "a") -> tuple[Snippet, ...]:
        def gather_now(_: tuple[Snippet, ...]) -> tuple[Snippet, ...]:
            self.made += 1
            return (Snippet("p", str(self.made)),)

        return self.cache.get(key, line, 20.0, gather_now)


def test_the_context_stays_while_the_user_types() -> None:
    gatherer = Gatherer()
    first = gatherer.get()
    for line in range(FAR_LINES + 1):
        gatherer.now += 5
        assert gatherer.get(line) is first
    assert gatherer.made == 1


def test_it_is_made_anew_when_it_may_be_wrong() -> None:
    gatherer = Gatherer()
    gatherer.get()
    gatherer.get(FAR_LINES + 1)
    assert gatherer.made == 2
    gatherer.now += 21
    gatherer.get(FAR_LINES + 1)
    assert gatherer.made == 3
    gatherer.cache.touch()
    gatherer.get(FAR_LINES + 1)
    assert gatherer.made == 4
    gatherer.get(key="b")
    gatherer.get(FAR_LINES + 1)
    assert gatherer.made == 6
    gatherer.cache.forget("a")
    gatherer.get(FAR_LINES + 1)
    assert gatherer.made == 7


def test_the_same_again_is_the_same_object_and_gather_sees_what_was_shown() -> None:
    cache, seen = ContextCache(), list[tuple[Snippet, ...]]()

    def same(kept: tuple[Snippet, ...]) -> tuple[Snippet, ...]:
        seen.append(kept)
        return (Snippet("p", "text"),)

    first = cache.get("a", 0, 20.0, same)
    cache.touch()
    assert cache.get("a", 0, 20.0, same) is first
    assert seen == [(), first]


def test_old_documents_leave_the_cache() -> None:
    gatherer = Gatherer()
    for number in range(100):
        gatherer.get(key=str(number))
    assert gatherer.get(key="99") == (Snippet("p", "100"),)
    gatherer.get(key="0")
    assert gatherer.made == 101


def test_what_was_gathered_before_it_had_to_be_forgotten_is_not_kept() -> None:
    """The model's thread gathers while the rules change in the other one."""
    cache = ContextCache()
    old, new = (Snippet("private.py", "x = 1"),), (Snippet("public.py", "y = 2"),)

    def overtaken(_: object) -> tuple[Snippet, ...]:
        cache.forget()
        return old

    assert cache.get("a", 0, 60, overtaken) == old
    assert cache.get("a", 0, 60, lambda kept: new) == new
