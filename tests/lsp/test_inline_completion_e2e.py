"""textDocument/inlineCompletion over a real server process with a scripted model."""

import asyncio

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcRequestCancelled

from tests.lsp.editor import Editor, editing

Kind = types.InlineCompletionTriggerKind


@pytest.mark.parametrize("client", ["neovim_0.12", "vscode_languageclient_10"])
async def test_the_capability_is_advertised_and_the_menu_is_not(client: str) -> None:
    async with editing(client) as editor:
        assert editor.capabilities.inline_completion_provider == types.InlineCompletionOptions()
        assert editor.capabilities.completion_provider is None


async def test_an_insertion_is_an_empty_range_at_the_cursor() -> None:
    async with editing(FAKE_TEXT="1 + 2") as editor:
        editor.open("x = ‸\ny = 3\n")
        (item,) = await editor.ask()
        assert item.insert_text == "1 + 2"
        assert item.range == types.Range(start=editor.position(), end=editor.position())
        assert (await editor.test("counters")).prefixes == ["x = "]


async def test_VS_Code_gets_the_whole_line() -> None:
    async with editing("vscode_languageclient_10", FAKE_TEXT="1 + 2") as editor:
        editor.open("x = ‸\ny = 3\n")
        (item,) = await editor.ask()
        assert item.range == types.Range(start=types.Position(0, 0), end=types.Position(0, 4))
        assert item.insert_text == item.filter_text == "x = 1 + 2"
        assert editor.accepted(item) == "x = 1 + 2\ny = 3\n"


@pytest.mark.parametrize("client", ["neovim_0.12", "vscode_languageclient_10"])
async def test_A1_a_closer_already_there_is_replaced_not_repeated(client: str) -> None:
    async with editing(client, FAKE_TEXT="1, 2)") as editor:
        editor.open("value = max(‸)\n")
        (item,) = await editor.ask()
        assert item.range.start == types.Position(0, 0)
        assert editor.accepted(item).startswith("value = max(1, 2)\n")
        replaced = "value = max()"
        assert item.filter_text.startswith(replaced)


async def test_D1_line_ends_on_the_wire_are_newlines() -> None:
    async with editing(FAKE_TEXT="    a = 1\n    return a") as editor:
        editor.open("def f():\r\n‸\r\n")
        (item,) = await editor.ask()
        assert "\r" not in item.insert_text
        assert "\n" in item.insert_text


async def test_a_cancelled_request_is_answered_while_the_model_is_inside_a_pass() -> None:
    async with editing(FAKE_TEXT="a b c d e f g h", FAKE_PER_STEP="1", FAKE_GATED="1") as editor:
        editor.open("x = ‸\n")
        request = editor.ask(msg_id="one")
        await editor.test("wait", runs=1)
        editor.cancel("one")
        with pytest.raises(JsonRpcRequestCancelled):
            await request  # no pass is allowed yet: the answer did not wait for the model
        await editor.test("allow", passes=1000)
        again = await editor.ask()
        assert again
        counters = await editor.test("counters")
        assert counters.runs == 2
        assert counters.passes <= 1 + 15  # at most one pass of the cancelled run


async def test_H4_a_burst_of_thirty_keys_runs_the_model_at_most_three_times() -> None:
    async with editing(FAKE_TEXT="1 + 2") as editor:
        editor.open("‸\n")
        await editor.status(model="fake")
        requests = []
        for key in "the_long_name_of_a_variable = ":
            editor.type(key)
            requests.append(editor.ask())
        answers = await asyncio.gather(*requests)
        assert answers[-1][0].insert_text == "1 + 2"
        assert all(answer == [] for answer in answers[:-1])
        assert (await editor.test("counters")).runs <= 3


async def test_H2_an_answer_for_another_buffer_is_not_given() -> None:
    async with editing(FAKE_TEXT="1 + 2", FAKE_GATED="1") as editor:
        editor.open("x = ‸\n")
        request = editor.ask()
        await editor.test("wait", runs=1)
        editor.type("y")
        await editor.test("allow", passes=1000)
        assert await request == []


async def test_H2_an_answer_is_moved_along_when_its_own_beginning_was_typed() -> None:
    async with editing(FAKE_TEXT="1 + 2", FAKE_GATED="1") as editor:
        editor.open("x = ‸\n")
        request = editor.ask()
        await editor.test("wait", runs=1)
        editor.type("1 ")
        await editor.test("allow", passes=1000)
        (item,) = await request
        assert editor.accepted(item) == "x = 1 + 2\n"


async def test_F3_typing_what_was_suggested_needs_no_model_run() -> None:
    async with editing(FAKE_TEXT="alpha(beta, gamma)") as editor:
        editor.open("x = ‸\n")
        assert await editor.ask()
        for key in "alpha(":
            editor.type(key)
            (item,) = await editor.ask()
            assert editor.accepted(item) == "x = alpha(beta, gamma)\n"
        editor.replace(editor.cursor, editor.cursor, ")")  # the editor closes the bracket by itself
        editor.cursor -= 1
        (item,) = await editor.ask()
        assert editor.accepted(item) == "x = alpha(beta, gamma)\n"
        editor.replace(editor.cursor - 1, editor.cursor + 1, "")  # and going back shows it again
        (item,) = await editor.ask()
        assert editor.accepted(item) == "x = alpha(beta, gamma)\n"
        assert (await editor.test("counters")).runs == 1


async def test_a_request_that_is_overtaken_gets_an_empty_list_at_once_and_its_run_is_shared() -> None:
    async with editing(FAKE_TEXT="1 + 2", FAKE_GATED="1") as editor:
        editor.open("x = ‸\n")
        first = editor.ask()
        await editor.test("wait", runs=1)
        second = editor.ask()
        assert await first == []  # no pass is allowed yet
        await editor.test("allow", passes=1000)
        assert (await second)[0].insert_text == "1 + 2"
        assert (await editor.test("counters")).runs == 1


async def test_F3_a_run_goes_on_while_the_user_types_what_it_drafts() -> None:
    async with editing(FAKE_TEXT="1 + 2 + 3", FAKE_PER_STEP="1", FAKE_GATED="1") as editor:
        editor.open("x = ‸\n")
        first = editor.ask()
        await editor.test("allow", passes=4)
        await editor.test("wait", runs=1, drafts=3)
        editor.type("1 ")
        second = editor.ask()
        assert await first == []
        await editor.test("allow", passes=1000)
        (item,) = await second
        assert editor.accepted(item) == "x = 1 + 2 + 3\n"
        assert (await editor.test("counters")).runs == 1


async def test_a_run_that_changes_its_mind_about_what_was_typed_is_followed_by_another() -> None:
    # what follows "x " in the draft turns out to be no code: nothing is left of it after "x " was typed
    async with editing(FAKE_TEXT="x <|endoftext|>junk", FAKE_PER_STEP="1", FAKE_GATED="1") as editor:
        editor.open("v = ‸\n")
        first = editor.ask()
        await editor.test("allow", passes=3)
        await editor.test("wait", runs=1, drafts=2)
        editor.type("x ")
        second = editor.ask()
        assert await first == []
        await editor.test("allow", passes=1000)
        await second
        assert (await editor.test("counters")).prefixes == ["v = ", "v = x "]


async def test_a_cancelled_request_stops_the_run_that_it_took_over() -> None:
    async with editing(FAKE_TEXT="a b c d e f g h", FAKE_PER_STEP="1", FAKE_GATED="1") as editor:
        editor.open("x = ‸\n")
        first = editor.ask()
        await editor.test("wait", runs=1)
        second = editor.ask(msg_id="two")
        assert await first == []
        editor.cancel("two")
        with pytest.raises(JsonRpcRequestCancelled):
            await second
        await editor.test("allow", passes=1)
        editor.type("(")
        third = editor.ask()
        await editor.test("wait", runs=2)  # the thread is free for it after one pass
        await editor.test("allow", passes=1000)
        await third


async def test_F1_an_open_menu_is_continued_over_its_own_range() -> None:
    async with editing(FAKE_TEXT="(value)") as editor:
        editor.open("x = pri‸\n")
        chosen = types.Range(start=types.Position(0, 4), end=types.Position(0, 7))
        (item,) = await editor.ask(selected=types.SelectedCompletionInfo(range=chosen, text="print"))
        assert item.range == chosen
        assert item.insert_text == "print(value)"
        assert (await editor.test("counters")).prefixes == ["x = print"]


async def test_F1_what_is_shown_is_kept_when_the_menu_agrees_with_it() -> None:
    async with editing(FAKE_TEXT="nt(value)") as editor:
        editor.open("x = pri‸\n")
        assert (await editor.ask())[0].insert_text == "nt(value)"
        chosen = types.Range(start=types.Position(0, 4), end=types.Position(0, 7))
        (item,) = await editor.ask(selected=types.SelectedCompletionInfo(range=chosen, text="print"))
        assert item.insert_text == "print(value)"
        assert (await editor.test("counters")).runs == 1


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
async def test_E1_positions_are_in_the_units_that_the_client_asked_for(encoding: str) -> None:
    async with editing(encodings=[encoding], FAKE_TEXT="+ 1") as editor:
        assert editor.encoding == encoding
        editor.open("# 漢字 \U0001f680\ns = '\x0c\u2028\U0001f600\U0001f600é' ‸\r\ny = 2\r\n")
        (item,) = await editor.ask()
        assert item.range.start == item.range.end == editor.position()
        editor.replace(editor.text.index("\U0001f600"), editor.text.index("é"), "漢")
        editor.cursor = editor.text.index(" \r\n") + 1
        (item,) = await editor.ask()
        assert item.range.start == editor.position()
        assert (await editor.test("counters")).prefixes[-1].endswith("s = '\x0c\u2028漢é' ")


async def test_O1_D3_ordinary_and_unusual_buffers_get_an_answer() -> None:
    buffers = {
        "file:///project/empty.py": "‸",
        "file:///project/no_newline.py": "x = ‸",
        "untitled:Untitled-1": "x = ‸\n",
        "file:///c%3A/project/drive.py": "x = ‸\n",
    }
    async with editing(FAKE_TEXT="value") as editor:
        for uri, marked in buffers.items():
            editor.open(marked, uri=uri)
            (item,) = await editor.ask()
            assert editor.accepted(item).startswith(marked.replace("‸", "value").rstrip("\n"))


async def test_O2_other_schemes_are_left_alone() -> None:
    async with editing(FAKE_TEXT="value") as editor:
        for uri in ("git:/project/x.py?HEAD", "fugitive:///x.py", "scp://host/x.py", "output:log", "nonsense"):
            editor.open("x = ‸\n", uri=uri)
            assert await editor.ask(invoked=True) == []
        assert (await editor.test("counters")).runs == 0
        assert editor.messages == []


async def test_I1_a_file_that_is_too_large_makes_the_status_inactive_with_the_reason() -> None:
    async with editing(options={"files": {"maxKilobytes": 1}}, FAKE_TEXT="value") as editor:
        editor.open("x = ‸\n" + "# filler\n" * 200)
        assert await editor.ask() == []
        status = await editor.status(kind="Inactive")
        assert "larger than 1 KB" in status.message
        editor.open("x = ‸\n", uri="file:///project/small.py")
        assert await editor.ask()
        assert editor.statuses[-1].kind == "Normal"


@pytest.mark.parametrize("switched_on", [True, False])
async def test_M1_a_scope_that_is_switched_off_causes_no_run(switched_on: bool) -> None:
    places = {
        "comments": ("# say ‸\n", "python"),
        "strings": ("x = 'say ‸'\n", "python"),
        "markdown": ("Say ‸\n", "markdown"),
    }
    options = {"inline": dict.fromkeys(places, switched_on)}
    async with editing(options=options, FAKE_TEXT="value") as editor:
        for n, (name, (marked, language)) in enumerate(places.items(), start=1):
            editor.open(marked, uri=f"file:///project/{name}", language=language)
            answer = await editor.ask()
            assert (await editor.test("counters")).runs == (n if switched_on else 0)
            assert switched_on or answer == []
        editor.open("x = ‸\n", uri="file:///project/code.py")
        assert await editor.ask()


async def test_J3_a_failing_model_is_one_message_and_an_empty_list() -> None:
    async with editing(FAKE_TEXT="!") as editor:
        editor.open("secret = ‸\n")
        for _ in range(3):
            assert await editor.ask(invoked=True) == []
        status = await editor.status(kind="Error")
        assert "ValueError" in status.message
        assert editor.messages == [status.message]
        assert "secret" not in status.message
        await editor.test("script", text="1 + 2", gated=False)
        assert (await editor.ask(invoked=True))[0].insert_text == "1 + 2"


async def ask_unopened(editor: Editor) -> list[types.InlineCompletionItem]:
    editor.text = "x = "
    return await editor.ask()


async def test_O3_a_document_that_was_never_opened_gets_an_empty_list() -> None:
    async with editing() as editor:
        assert await ask_unopened(editor) == []
        assert editor.messages == []
