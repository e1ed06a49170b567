"""textDocument/completion for clients that have no ghost text, over a real server process."""

import pytest
from lsprotocol import types

from tests.lsp.editor import editing


async def test_the_menu_is_offered_without_trigger_characters() -> None:
    async with editing("menu_only") as editor:
        assert editor.capabilities.completion_provider == types.CompletionOptions()
        assert editor.capabilities.inline_completion_provider is not None  # harmless: this client never asks
        assert editor.encoding == "utf-8"


async def test_one_item_stands_first_and_shows_what_it_would_write() -> None:
    async with editing("menu_only", FAKE_TEXT="nt(value)") as editor:
        editor.open("é = pri‸\n")
        answer = await editor.complete()
        assert answer.is_incomplete
        (item,) = answer.items
        assert item.label == "print(value)"
        assert item.text_edit == types.TextEdit(
            range=types.Range(start=types.Position(0, 5), end=types.Position(0, 8)), new_text="print(value)"
        )
        assert item.filter_text == "print(value)"
        assert item.sort_text < " "
        assert item.insert_text_mode == types.InsertTextMode.AsIs
        assert item.documentation.value == "```python\nprint(value)\n```"


async def test_typing_on_asks_again_and_needs_no_second_run() -> None:
    async with editing("menu_only", FAKE_TEXT="nt(value)") as editor:
        editor.open("x = pri‸\n")
        await editor.complete()
        editor.type("nt")
        (item,) = (await editor.complete()).items
        assert item.text_edit.new_text == "print(value)"
        assert (await editor.test("counters")).runs == 1


@pytest.mark.parametrize("text", ["", " ", "\n"])
async def test_nothing_to_suggest_is_an_empty_list(text: str) -> None:
    async with editing("menu_only", FAKE_TEXT=text) as editor:
        editor.open("x = ‸\n")
        assert not (await editor.complete()).items
        assert editor.messages == []
