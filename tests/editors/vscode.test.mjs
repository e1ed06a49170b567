// What VS Code does with the packaged extension, over the real server with a scripted model.

import assert from "node:assert/strict";
import { test } from "node:test";
import { inCode } from "./code_server.mjs";

const FILES = {
	"ghost.py": "# ghost\n",
	"undo.py": "# ghost\n",
	"word.py": "# word\n",
	"still.py": "# word\n",
	"burst.py": "# word\n",
	"escape.py": "# ghost\n",
	"menu.py": "# menu\nalphabet = 1\n",
	"input.py": "# ghost\n",
	"indent.py": "# indent\n",
	"cursors.py": "a = 1\nb = 2\n",
	"fix.py": "# fix\ndef total(values)\n    return sum(values)\n",
	"rewrite.py":
		"# rewrite\ndef mean(values):\n    total = 0\n    for value in values:\n        total += value\n    return total / len(values)\n",
	"pause.py": "# pause\n",
	"snippet.py": "# snippet\n",
};

const vs = inCode(FILES, { settings: { "editor.tabCompletion": "onlySnippets" } });

test("a rewrite fills in, is accepted as one undo step", async () => {
	const { code } = vs;
	await code.file("rewrite.py");
	const old = await code.until((text) => text.includes("len(values)"));
	await code.rewrite(3, 6, "use sum");
	await code.decorated("sum");
	await code.picture("vscode-rewrite-canvas.png");
	await code.difference("return sum(values) / len(values)");
	await code.press("Control+Enter");
	await code.until("# rewrite\ndef mean(values):\n    return sum(values) / len(values)");
	await code.press("Control+Z");
	await code.until(old);
});

test("ghost text appears, Tab accepts it, one undo takes it back (G1)", async () => {
	const { code } = vs;
	await code.at("ghost.py");
	await code.suggest("answer = ", "6 * 7");
	await code.press("Tab");
	await code.until("# ghost\nanswer = 6 * 7");
	await code.press("Control+Z");
	await code.until("# ghost\nanswer =");
});

test("what was undone is not suggested at once (G5)", async () => {
	const { code } = vs;
	await code.at("undo.py");
	await code.suggest("answer = ", "6 * 7");
	await code.press("Tab");
	await code.until("# ghost\nanswer = 6 * 7");
	await code.press("Control+Z");
	await code.until("# ghost\nanswer =");
	await code.settled();
	await code.noGhost();
	await code.suggest("3 + ", "6 * 7"); // another place
});

test("a word is accepted and the rest stays (G3)", async () => {
	const { code } = vs;
	await code.at("word.py");
	await code.suggest("y = ", "first + second");
	await code.press("Control+ArrowRight");
	await code.until("# word\ny = first");
	await code.ghost("second");
	await code.press("Tab");
	await code.until("# word\ny = first + second");
});

test("typing what is suggested keeps it on the screen (F3)", async () => {
	const { code } = vs;
	await code.at("still.py");
	await code.suggest("z = ", "first + second");
	const runs = await code.runs();
	await code.type("fir");
	await code.ghost("st + second");
	await code.until("# word\nz = fir");
	await code.soon(() => code.messages("textDocument/inlineCompletion").at(-1).params.position.character === 7);
	assert.equal(await code.runs(), runs);
});

test("keys and Tab in one burst leave exactly the text (H1)", async () => {
	const { code } = vs;
	await code.at("burst.py");
	await code.suggest("y = ", "first + second");
	// sent without waiting for one another, as fast fingers do
	const keys = ["f", "i", "r", "Tab", "Space", "#"].map((key) => code.press(key));
	await Promise.all(keys);
	await code.until("# word\ny = first + second #");
});

test("Escape takes ghost text away for good, and changes no text (F2, F5, B4)", async () => {
	const { code } = vs;
	await code.at("escape.py");
	await code.suggest("y = ", "6 * 7");
	await code.press("Escape");
	await code.noGhost();
	const rejected = await code.soon(() =>
		code.messages("mercury/rejected").find((one) => one.params.textDocument?.uri.endsWith("escape.py")),
	);
	assert.deepEqual(rejected.params.position, { line: 1, character: 4 });
	await code.until("# ghost\ny =");
	const before = code.messages("textDocument/inlineCompletion").at(-1).id;
	await code.type("3");
	await code.press("Backspace"); // the same place once more
	const asked = await code.soon(() =>
		code
			.messages("textDocument/inlineCompletion")
			.find((one) => one.id > before && one.params.position.character === 4),
	);
	assert.deepEqual((await code.answered(asked)).result, []);
	await code.settled();
	await code.noGhost();
});

test("ghost text goes with the editor (F2)", async () => {
	const { code } = vs;
	await code.at("ghost.py");
	await code.press("Enter");
	await code.suggest("other = ", "6 * 7");
	await code.file("cursors.py");
	await code.noGhost();
});

test("ghost text continues the entry that is selected in the menu (F1)", async () => {
	const { code } = vs;
	await code.at("menu.py");
	await code.type("y = al");
	await code.press("Control+Space");
	await code.page.locator(".suggest-widget.visible .monaco-list-row.focused", { hasText: "alphabet" }).waitFor();
	await code.ghost("+ 1");
	const asked = code.messages("textDocument/inlineCompletion").at(-1);
	assert.equal(asked.params.context.selectedCompletionInfo.text, "alphabet");
	await code.press("Escape"); // one of them for both
	await code.noGhost();
	await code.page.locator(".suggest-widget.visible").waitFor({ state: "detached" });
	await code.until("# menu\nalphabet = 1\ny = al");
});

test("while an input method composes nothing is asked for or shown (E4)", async () => {
	const { code } = vs;
	await code.at("input.py");
	await code.suggest("name = ", "6 * 7");
	await code.runs();
	const asked = code.messages("textDocument/inlineCompletion").length;
	const keys = await code.page.context().newCDPSession(code.page);
	for (const text of ["n", "ni", "nih", "にほ"]) {
		await keys.send("Input.imeSetComposition", { text, selectionStart: text.length, selectionEnd: text.length });
	}
	await code.until("# ghost\nname = にほ");
	await code.noGhost();
	assert.equal(code.messages("textDocument/inlineCompletion").length, asked);
	await keys.send("Input.insertText", { text: "日本" });
	await code.until("# ghost\nname = 日本");
	await code.suggest(" + ", "6 * 7");
});

test("Tab indents where the cursor stands in indentation (C5)", async () => {
	const { code } = vs;
	await code.at("indent.py");
	await code.press("Tab");
	await code.type("x");
	await code.until("# indent\n    x");
});

test("Tab in a snippet goes to the next stop (C6)", async () => {
	const { code } = vs;
	await code.at("snippet.py");
	await code.type("two");
	await code.press("Tab");
	await code.until("# snippet\nf(a, b)");
	await code.type("q");
	await code.press("Tab");
	await code.type("r");
	await code.until("# snippet\nf(q, r)");
});

test("with several cursors nothing is suggested (G4)", async () => {
	const { code } = vs;
	await code.at("cursors.py", 1);
	await code.press("End");
	await code.command("Add Cursor Below");
	await code.inEditor();
	await code.type(" + ");
	await code.until("a = 1 +\nb = 2 +");
	await code.settled();
	await code.noGhost();
});

test("the light bulb mends a syntax error, in one undo step", async () => {
	const { code } = vs;
	await code.at("fix.py", 2);
	await code.press("End");
	await code.press("Control+.");
	const entry = code.page.locator(".action-widget .monaco-list-row", { hasText: /syntax/i }).first();
	await entry.waitFor();
	await entry.click();
	await code.until("# fix\ndef total(values):\n    return sum(values)");
	await code.press("Control+Z");
	await code.until("# fix\ndef total(values)\n    return sum(values)");
});

test("a rewrite that is rejected leaves the text alone", async () => {
	const { code } = vs;
	await code.file("rewrite.py");
	const old = await code.until((text) => text.includes("total += value"));
	await code.rewrite(3, 6, "use sum");
	await code.difference("return sum(values) / len(values)");
	await code.press("Escape");
	await code.page.locator(".monaco-diff-editor").waitFor({ state: "detached" });
	await code.until(old);
});

test("pause is honoured at once and shown; resume ends it (F6)", async () => {
	const { code } = vs;
	await code.at("pause.py");
	await code.suggest("a = ", "1 + 2");
	await code.command("Mercury: Pause");
	await code.noGhost();
	await code.inEditor();
	const runs = await code.runs();
	await code.type("b");
	await code.page.locator('[id="status.languageStatus"]').first().click();
	await code.page.getByText("paused").first().waitFor();
	await code.press("Escape");
	await code.at("pause.py");
	await code.soon(() => code.messages("textDocument/inlineCompletion").at(-1).params.position.character === 5);
	assert.equal(await code.runs(), runs);
	await code.command("Mercury: Resume");
	await code.inEditor();
	await code.press("Enter");
	await code.suggest("c = ", "1 + 2");
	assert.match(await code.text(), /a = b\nc =$/);
});
