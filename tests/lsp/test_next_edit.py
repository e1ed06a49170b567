"""The next edit over scenarios: a buffer, a cursor, recent edits, and what is right; the model is scripted."""

from pathlib import Path

import pytest

from mercury_lsp.actions.rewriting import drive
from mercury_lsp.diffs import Hunk, apply
from mercury_lsp.evaluation.next_edit import Scenario, load_scenarios
from mercury_lsp.next_edits.changes import Change, heads, parameter, split_arguments, word_pairs
from mercury_lsp.next_edits.next_edit import Situation, history, next_edit, predict
from mercury_lsp.next_edits.unfinished import unfinished
from mercury_lsp.text import Document, Span
from mercury_model.draft import Request
from tests.fakes import FakeInfiller

FOLDER = Path(__file__).parents[1] / "data" / "next-edit"
SCENARIOS = load_scenarios(FOLDER)
WRITES = {"python-unfinished-property": "property"}
"""What the model writes where the rules leave something open."""


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_each_scenario_gets_its_edit_or_silence(scenario: Scenario) -> None:
    model = FakeInfiller(WRITES.get(scenario.name, ""))
    assert predict(model, scenario) == scenario.expected
    assert model.passes <= 12


def test_there_are_scenarios_of_both_kinds_in_four_languages() -> None:
    assert sum(s.expected is None for s in SCENARIOS) >= 5
    assert sum(s.expected is not None for s in SCENARIOS) >= 12
    assert {s.language for s in SCENARIOS if s.expected is not None} >= {"python", "typescript", "go", "rust"}


@pytest.mark.parametrize("scenario", [s for s in SCENARIOS if s.expected], ids=lambda scenario: scenario.name)
def test_what_was_shown_once_and_turned_down_is_not_shown_again(scenario: Scenario) -> None:
    model = FakeInfiller(WRITES.get(scenario.name, ""))
    first = find(model, scenario)
    assert first is not None
    rejected = frozenset({(first.span.of(scenario.buffer), first.new_text)})
    assert find(model, scenario, rejected) != first


@pytest.mark.parametrize("scenario", [s for s in SCENARIOS if s.expected], ids=lambda scenario: scenario.name)
def test_line_ends_of_the_document_are_kept(scenario: Scenario) -> None:
    model = FakeInfiller(WRITES.get(scenario.name, ""))
    document = Document("file:///a", 1, scenario.language, scenario.buffer.replace("\n", "\r\n"))
    line = document.line_span(scenario.row - 1)
    changes = tuple(Change(e.path, e.old, e.new) for e in scenario.history)
    hunk = drive(next_edit(Situation(document, min(line.start + scenario.col, line.end), changes)), lambda: model)
    assert hunk is not None and scenario.expected is not None
    assert apply(document.text, (hunk,)) == scenario.expected.replace("\n", "\r\n")


def find(model: FakeInfiller, scenario: Scenario, rejected: frozenset[tuple[str, str]] = frozenset()) -> Hunk | None:
    document = Document("file:///a", 1, scenario.language, scenario.buffer)
    cursor = document.line_span(scenario.row - 1).start + scenario.col
    changes = tuple(Change(e.path, e.old, e.new) for e in scenario.history)
    return drive(next_edit(Situation(document, cursor, changes, scenario.path, rejected)), lambda: model)


def ask(
    marked: str, *changes: tuple[str, str], model: FakeInfiller | None = None, language: str = "python"
) -> str | None:
    """The text after the next edit of a buffer with a cursor at `‸`."""
    text = marked.replace("‸", "")
    document = Document("file:///a.py", 1, language, text)
    made = tuple(Change("a.py", old, new) for old, new in changes)
    hunk = drive(next_edit(Situation(document, marked.index("‸"), made)), lambda: model or FakeInfiller(""))
    return apply(text, (hunk,)) if hunk is not None else None


RENAMED = ("def area(w, h):", "def area(width, h):")
BODY = "def area(width, h):‸\n    return w * h\n"


def test_an_edit_that_makes_the_code_less_probable_is_not_shown() -> None:
    model = FakeInfiller("")
    model.likelihood = lambda _, text: -1.0 if "width * h" in text else 0.0
    assert ask(BODY, RENAMED, model=model) is None
    model.likelihood = lambda _, text: 1.0 if "width * h" in text else 0.0
    assert ask(BODY, RENAMED, model=model) == "def area(width, h):\n    return width * h\n"


def test_of_two_variants_the_model_chooses() -> None:
    go = "package a\n\nfunc (q *Q) Send(msgs []Message) error {‸\n\tq.publish(msg)\n\tq.sent++\n\treturn nil\n}\n"
    change = ("func (q *Q) Send(msg Message) error {", "func (q *Q) Send(msgs []Message) error {")
    for inside in (True, False):
        model = FakeInfiller("")
        model.likelihood = lambda _, text, inside=inside: float(("\t\tq.sent++" in text) == inside)
        found = ask(go, change, model=model, language="go")
        assert found is not None and "for _, msg := range msgs {" in found
        assert ("\t\tq.sent++" in found) == inside


def test_a_model_that_cannot_weigh_shows_only_what_the_edits_themselves_prove() -> None:
    class Mute(FakeInfiller):
        def log_likelihood(self, request, texts, /):  # type: ignore[no-untyped-def, override]
            return None

    assert ask(BODY, RENAMED, model=Mute("")) is None
    lines = "print(1)\nprint(2)\nprint(3)‸\n"
    changes = (("print(7)", "log(7)"), ("print(8)", "log(8)"))
    assert ask(lines, *changes, model=Mute("")) == "log(1)\nlog(2)\nlog(3)\n"


def test_the_model_sees_the_recent_edits_and_both_sides() -> None:
    seen: list[Request] = []
    model = FakeInfiller("")
    model.likelihood = lambda request, text: seen.append(request) or 0.0  # type: ignore[func-returns-value]
    ask(BODY + "\n\nprint(area(1, 2))\n", RENAMED, model=model)
    assert seen[0].context[0].text == "-def area(w, h):\n+def area(width, h):\n"
    assert seen[0].prefix == "def area(width, h):\n"
    assert seen[0].document == "file:///a.py#next"  # the completions' cache is left alone


def test_B2_nothing_is_thrown_away() -> None:
    cleared = "def f(rows):‸\n    return g(rows, 1, 2, 3)\n"
    changes = (
        ("x = f(1)  # one two three four five six", "x = 1"),
        ("y = f(2)  # one two three four five six", "y = 2"),
    )
    assert ask(cleared, *changes) is None


def test_the_users_own_edit_is_never_undone() -> None:
    back = ("log(a)", "print(a)")
    assert ask("print(a)‸\nprint(b)\n", ("print(z)", "log(z)"), ("print(y)", "log(y)"), back) != "log(a)\nlog(b)\n"


def test_B3_a_line_that_stands_there_is_not_put_in_twice() -> None:
    text = "@cache\ndef a(): ...\n\n\n@cache\ndef b(): ...‸\n"
    assert ask(text, ("def a(): ...", "@cache\ndef a(): ..."), ("def b(): ...", "@cache\ndef b(): ...")) is None


def test_a_name_in_a_string_or_comment_is_not_renamed() -> None:
    text = 'def area(width, h):‸\n    # w is no unit\n    return w * h, "w"\n'
    assert ask(text, RENAMED) == 'def area(width, h):\n    # w is no unit\n    return width * h, "w"\n'


def test_a_rename_of_a_renamed_function_reaches_another_file() -> None:
    assert ask("from a import old_name\n\nold_name(1)‸\n", ("def old_name(x):", "def new_name(x):")) == (
        "from a import new_name\n\nnew_name(1)\n"
    )


def test_a_missing_argument_is_written_by_the_model_if_it_is_sure() -> None:
    text = "def f(a, limit):‸\n    return a[:limit]\n\n\ndef g(x):\n    return f(x)\n"
    change = ("def f(a):\n    return a", "def f(a, limit):\n    return a[:limit]")
    found = ask(text, change, model=FakeInfiller("10"))
    assert found == text.replace("‸", "").replace("f(x)", "f(x, 10)")
    assert ask(text, change, model=FakeInfiller("")) is None


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("def f(a):\n    return a\n", "python"),
        ("", "python"),
        ("\n\n\n", "go"),
        ("x = (((", "rust"),
        ("\ud800 = '\u2028'\n", "python"),
        ("plain words", "unknown"),
    ],
)
def test_any_text_and_any_history_is_survived(text: str, language: str) -> None:
    for cursor in range(len(text) + 1):
        for change in (
            Change("a", "", ""),
            Change("a", text, ""),
            Change("a", "def f(b):", text),
            Change("a", "(", ")"),
        ):
            document = Document("file:///a", None, language, text)
            drive(next_edit(Situation(document, cursor, (change,))), lambda: FakeInfiller("x"))


# --- the line at the cursor ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("marked", "language", "certain"),
    [
        ("\t/‸\n\tx := 1\n", "go", True),
        ("@‸\ndef f(): ...\n", "python", True),
        ("fn f(o: Option<u8>) -> u8 {\n    o‸\n}\n", "rust", False),
        ("x = 1 +‸\n", "python", True),
    ],
)
def test_a_line_without_its_end_is_unfinished(marked: str, language: str, certain: bool) -> None:
    for at in (marked.index("‸"), marked.index("‸") - 1):  # block cursors stand on the last character
        found = unfinished(Document("file:///a", 1, language, marked.replace("‸", "")), at)
        assert found is not None and found.certain is certain


@pytest.mark.parametrize("marked", ["x = 1‸\n", "‸\n", "let x‸ = 1;\n", "# done‸\n", "f(‸x)\n"])
def test_a_whole_line_is_not(marked: str) -> None:
    assert unfinished(Document("file:///a", 1, "python", marked.replace("‸", "")), marked.index("‸")) is None


def test_a_comment_is_begun_and_finished() -> None:
    go = "package a\n\nfunc f() {\n\t/‸\n\tg()\n}\n"
    assert ask(go, model=FakeInfiller("Call g."), language="go") == go.replace("/‸", "// Call g.")


def test_a_bare_name_is_gone_on_with_only_if_that_is_much_more_probable() -> None:
    rust = "fn f(o: Option<u8>) -> u8 {\n    o‸\n}\n"
    model = FakeInfiller(".unwrap_or(0)")
    assert ask(rust, model=model, language="rust") is None
    model.likelihood = lambda _, text: 5.0 if "unwrap" in text else 0.0
    assert ask(rust, model=model, language="rust") == rust.replace("o‸", "o.unwrap_or(0)")


def test_without_an_edit_or_an_unfinished_line_the_model_is_not_asked() -> None:
    model = FakeInfiller("surprise")
    assert ask("def f(a):\n    return a‸ + 1\n", model=model) is None
    assert model.passes == 0


# --- what changes are read from --------------------------------------------------------------------------------------


def test_words_that_became_others() -> None:
    assert word_pairs("x = load(path, 1)", "x = read(source, 2)") == [("load", "read"), ("path", "source")]
    assert word_pairs("func Send(msg Message) error {", "func Send(msgs []Message) error {") == []


@pytest.mark.parametrize(
    ("text", "name", "parameters", "result"),
    [
        ("async def f(self, a: int, b=1) -> dict[str, int]:", "f", ["a", "b"], "dict[str, int]"),
        (
            "func (s *Store) Find(ctx context.Context, id int64) (*User, error) {",
            "Find",
            ["ctx", "id"],
            "(*User, error)",
        ),
        ("    pub fn all(&self, tag: &str) -> Vec<User> {", "all", ["tag"], "Vec<User>"),
        ("  query(sql: string, cb: (e: Error) => void): void {", "query", ["sql", "cb"], "void"),
        ("export async function load(db: DB): Promise<string[]> {", "load", ["db"], "Promise<string[]>"),
    ],
)
def test_heads_of_all_languages(text: str, name: str, parameters: list[str], result: str) -> None:
    (head,) = heads(text)
    assert (head.name, [p.name for p in head.parameters], head.result) == (name, parameters, result)
    assert head.asynchronous == ("async" in text)


@pytest.mark.parametrize("text", ["if (a) {", "return f(a)", "f(a, b)", "x = g(a) {", "for (;;) {"])
def test_what_is_no_head(text: str) -> None:
    assert heads(text) == []


def test_arguments_and_parameters() -> None:
    assert split_arguments("a, f(b, c), 'x, y', Map<K, V>") == ["a", "f(b, c)", "'x, y'", "Map<K, V>"]
    assert parameter("limit: int = 3").optional and parameter("limit?: number").optional
    assert parameter("ctx context.Context").type == "context.Context"


def test_a_long_history_is_cut_from_its_old_end() -> None:
    changes = [Change("a.py", f"old{n} " * 30, f"new{n} " * 30) for n in range(4)]
    shown = history(changes)
    assert [s.text.split()[0] for s in shown] == ["-old3"]
    assert history([]) == ()


def test_a_hunk_covers_no_more_than_its_places() -> None:
    scenario = next(s for s in SCENARIOS if s.name == "python-rename-parameter")
    hunk = find(FakeInfiller(""), scenario)
    assert hunk is not None
    assert hunk.span == Span(scenario.buffer.index("rate > 1"), scenario.buffer.index("rate)\n\n\ndef") + len("rate"))
