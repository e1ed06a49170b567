// The next edit in VS Code, over the real server's own rules: where it is drawn, and what Tab and Escape do with it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { inCode } from "./code_server.mjs";

const AREA = "# next\ndef area(w, h):\n    return w * h\n\n\nprint(area(2, 3))\n";
const LINE = "# late\nanswer = 0\n"; // the model has nothing to say as ghost text, but as a next edit
const FILES = { "far.py": AREA, "near.py": LINE, "no.py": AREA, "not.py": LINE };

const vs = inCode(FILES);

/** Renames the `w` of line 2, whose column is `column` (from 0), to `width`: elsewhere it is still `w`. */
async function rename(code, name, column) {
	await code.at(name, 2);
	for (let i = 0; i <= column; i++) await code.press("ArrowRight");
	await code.type("idth");
}

/** Takes away what is assigned in line 2. */
async function empty(code, name) {
	await code.at(name, 2);
	for (const _ of "answer =") await code.press("ArrowRight");
	await code.command("Delete All Right");
	await code.inEditor();
}

test("elsewhere it is drawn at its line; Tab jumps, Tab accepts, one undo takes it back (F4, M2)", async () => {
	const { code } = vs;
	await rename(code, "far.py", 9);
	assert.equal(await code.decorated("idth"), 2);
	const before = AREA.replace("(w,", "(width,").trimEnd();
	assert.equal(await code.text(), before); // no code is covered, on no line
	await code.page
		.locator('.glyph-margin-widgets [class*="ced-"], .margin-view-overlays [class*="ced-"]')
		.first()
		.waitFor();
	await code.picture("vscode-next-edit.png");
	await code.press("Tab");
	await code.page.getByText("Ln 3, Col").waitFor();
	assert.equal(await code.text(), before);
	await code.press("Tab");
	const after = before.replace("return w ", "return width ");
	await code.until(after);
	await code.undecorated();
	await code.press("Control+Z");
	await code.until(before);
});

test("on the cursor's line it is ghost text, and Tab accepts it (F4)", async () => {
	const { code } = vs;
	await empty(code, "near.py");
	await code.ghost("6 * 7");
	await code.undecorated();
	await code.until("# late\nanswer =");
	await code.press("Tab");
	await code.until((text) => /^# late\nanswer = ?6 \* 7$/.test(text));
	await code.press("Control+Z");
	await code.until("# late\nanswer =");
});

test("Escape dismisses it for good, and the server is told (F5, B4)", async () => {
	const { code } = vs;
	await rename(code, "no.py", 9);
	assert.equal(await code.decorated("idth"), 2);
	await code.press("Escape");
	await code.undecorated();
	const { params } = await code.soon(() => code.messages("mercury/rejected").at(-1));
	assert.ok(params.item.id);
	assert.match(params.item.textDocument.uri, /no\.py$/);
	await askAgain(code);
	await code.undecorated();
});

test("as ghost text it is dismissed for good too (F5, B4)", async () => {
	const { code } = vs;
	await empty(code, "not.py");
	await code.ghost("6 * 7");
	await code.press("Escape");
	await code.noGhost();
	const { params } = await code.soon(() =>
		code.messages("mercury/rejected").find((one) => one.params.item?.textDocument.uri.endsWith("not.py")),
	);
	assert.ok(params.item.id);
	await askAgain(code);
	await code.noGhost();
	await code.undecorated();
});

/** Changes the text, so that a next edit is asked for once more, and waits until that has been answered and shown. */
async function askAgain(code) {
	const asked = () => code.messages("textDocument/copilotInlineEdit").at(-1);
	const before = asked().id;
	await code.type("x");
	await code.press("Backspace");
	const again = await code.soon(() => asked().id !== before && asked());
	await code.answered(again);
	await code.settled();
}
