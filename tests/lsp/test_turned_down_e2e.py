"""What the user does not want is not offered again of its own accord, over a real server process."""

import pytest

from tests.lsp.editor import URI, Editor, editing


def reject(editor: Editor) -> None:
    place = editor.position()
    position = {"line": place.line, "character": place.character}
    editor.client.protocol.notify("mercury/rejected", {"textDocument": {"uri": URI}, "position": position})


async def test_B4_what_was_rejected_is_not_offered_again_at_the_same_spot() -> None:
    async with editing(FAKE_TEXT="1 + 2") as editor:
        editor.open("x = ‸\ny = \n")
        assert await editor.ask()
        reject(editor)
        assert await editor.ask() == []
        editor.type("3")
        editor.replace(editor.cursor - 1, editor.cursor, "")
        assert await editor.ask() == []
        assert (await editor.test("counters")).runs == 1  # and the model need not be asked to know that
        assert (await editor.ask(invoked=True))[0].insert_text == "1 + 2"
        editor.cursor = len("x = \ny = ")
        assert (await editor.ask())[0].insert_text == "1 + 2"


async def test_B4_another_text_is_offered_at_the_spot() -> None:
    async with editing(FAKE_TEXT="1 + 2") as editor:
        editor.open("x = ‸\n")
        assert await editor.ask()
        reject(editor)
        editor.type("a")
        await editor.test("script", text="b + c", gated=False)
        assert (await editor.ask())[0].insert_text == "b + c"


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
async def test_G5_what_was_taken_and_undone_is_not_offered_at_once(newline: str) -> None:
    async with editing(FAKE_TEXT="    a = 1\n    return a") as editor:
        editor.open(f"def f():{newline}‸{newline}")
        start = editor.cursor
        (item,) = await editor.ask()
        editor.type(str(item.insert_text).replace("\n", newline))
        editor.replace(start, editor.cursor, "")
        assert await editor.ask() == []
        assert await editor.ask(invoked=True)
        editor.type("    b = 2" + newline)
        assert await editor.ask()


async def test_G5_typing_a_part_and_going_back_is_no_undo() -> None:
    async with editing(FAKE_TEXT="1 + 2") as editor:
        editor.open("x = ‸\n")
        assert await editor.ask()
        editor.type("1 ")
        editor.replace(editor.cursor - 2, editor.cursor, "")
        assert (await editor.ask())[0].insert_text == "1 + 2"


@pytest.mark.parametrize("params", [3, [], {"position": 1}, {"position": {}, "uri": URI}, {"uri": 7, "position": {}}])
async def test_a_rejection_that_cannot_be_understood_is_nothing(params: object) -> None:
    async with editing(FAKE_TEXT="1 + 2") as editor:
        editor.open("x = ‸\n")
        editor.client.protocol.notify("mercury/rejected", params)
        assert await editor.ask()
        assert editor.messages == []
