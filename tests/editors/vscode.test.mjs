// What VS Code does with the packaged extension, over the real server with a scripted model.

import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { open } from "./code_server.mjs";

const given = JSON.parse(process.env.MERCURY_EDITOR_TEST);

/** A program that starts the server over a model that writes what `texts` has for the file's first line. */
const server = `#!/bin/sh
cd ${given.root} && FAKE_DELAY=0.25 exec ${given.python} -m tests.editors.scripted_server
`;

const FILES = {
	"ghost.py": "# ghost\n",
	"word.py": "# word\n",
	"indent.py": "# indent\n",
	"cursors.py": "a = 1\nb = 2\n",
	"fix.py": "# fix\ndef total(values)\n    return sum(values)\n",
	"rewrite.py":
		"# rewrite\ndef mean(values):\n    total = 0\n    for value in values:\n        total += value\n    return total / len(values)\n",
	"pause.py": "# pause\n",
	"snippet.py": "# snippet\n",
};

let code;
before(async () => {
	code = await open(FILES, server, { "editor.tabCompletion": "onlySnippets" });
});
after(() => code?.close());
afterEach(async (context) => {
	if (!context.passed && process.env.MERCURY_FAILED) {
		await code?.page.screenshot({ path: `${process.env.MERCURY_FAILED}/${context.name.replaceAll(/\W+/g, "_")}.png` });
	}
	await code?.page.keyboard.press("Escape");
});

async function atEnd(name) {
	await code.file(name);
	await code.press("Control+End");
}

test("ghost text appears, Tab accepts it, one undo takes it back (G1)", async () => {
	await atEnd("ghost.py");
	await code.type("answer = ");
	await code.ghost("6 * 7");
	await code.picture("vscode-ghost-text.png");
	await code.press("Tab");
	await code.until("# ghost\nanswer = 6 * 7");
	await code.press("Control+Z");
	await code.until("# ghost\nanswer =");
});

test("a word is accepted and the rest stays (G3)", async () => {
	await atEnd("word.py");
	await code.type("y = ");
	await code.ghost("first + second");
	await code.press("Control+ArrowRight");
	await code.until("# word\ny = first");
	await code.ghost("second");
	await code.press("Tab");
	await code.until("# word\ny = first + second");
});

test("typing what is suggested keeps it on the screen (F3)", async () => {
	await atEnd("word.py");
	await code.press("Enter");
	await code.type("z = ");
	await code.ghost("first + second");
	await code.type("fir");
	await code.ghost("st + second");
	await code.press("Escape");
	await code.noGhost();
	await code.until("# word\ny = first + second\nz = fir");
});

test("Tab indents where the cursor stands in indentation (C5)", async () => {
	await atEnd("indent.py");
	await code.press("Tab");
	await code.type("x");
	await code.until("# indent\n    x");
});

test("Tab in a snippet goes to the next stop (C6)", async () => {
	await atEnd("snippet.py");
	await code.type("two");
	await code.press("Tab");
	await code.until("# snippet\nf(a, b)");
	await code.type("q");
	await code.press("Tab");
	await code.type("r");
	await code.until("# snippet\nf(q, r)");
});

test("with several cursors nothing is suggested (G4)", async () => {
	await code.file("cursors.py");
	await code.press("Control+Home");
	await code.press("End");
	await code.command("Add Cursor Below");
	await code.type(" + ");
	await code.until("a = 1 +\nb = 2 +");
	await code.noGhost();
	await code.press("Escape");
});

test("the light bulb mends a syntax error, in one undo step", async () => {
	await code.file("fix.py");
	await code.press("Control+Home");
	await code.press("ArrowDown");
	await code.press("End");
	await code.press("Control+.");
	const entry = code.page.locator(".action-widget .monaco-list-row", { hasText: /syntax/i }).first();
	await entry.waitFor();
	await code.picture("vscode-quick-fix.png");
	await entry.click();
	await code.until("# fix\ndef total(values):\n    return sum(values)");
	await code.press("Control+Z");
	await code.until("# fix\ndef total(values)\n    return sum(values)");
});

test("a rewrite fills in, is accepted as one undo step", async () => {
	await code.file("rewrite.py");
	const old = await code.until((text) => text.includes("len(values)"));
	await code.press("Control+Home");
	for (let i = 0; i < 2; i++) await code.press("ArrowDown");
	for (let i = 0; i < 4; i++) await code.press("Shift+ArrowDown");
	await code.press("Control+Alt+R");
	const input = code.page.locator(".quick-input-widget input").first();
	await input.waitFor();
	await input.fill("use sum");
	await code.press("Enter");
	// what a decoration adds stands in the style sheet, not in the page's text
	await code.page.waitForFunction(() =>
		[...document.querySelectorAll(".view-lines span")].some((one) =>
			getComputedStyle(one, "::after").content.includes("sum"),
		),
	);
	await code.picture("vscode-rewrite-canvas.png");
	await code.page.locator(".monaco-diff-editor").waitFor();
	await code.page.waitForFunction(() =>
		[...document.querySelectorAll(".monaco-diff-editor .modified .view-line")].some((line) =>
			line.textContent.replaceAll("\u00a0", " ").includes("return sum(values) / len(values)"),
		),
	);
	await code.picture("vscode-rewrite-diff.png");
	await code.press("Control+Enter");
	await code.until("# rewrite\ndef mean(values):\n    return sum(values) / len(values)");
	await code.press("Control+Z");
	await code.until(old);
});

test("a rewrite that is rejected leaves the text alone", async () => {
	await code.file("rewrite.py");
	const old = await code.until((text) => text.includes("total += value"));
	await code.press("Control+Home");
	for (let i = 0; i < 2; i++) await code.press("ArrowDown");
	for (let i = 0; i < 4; i++) await code.press("Shift+ArrowDown");
	await code.press("Control+Alt+R");
	const input = code.page.locator(".quick-input-widget input").first();
	await input.waitFor();
	await input.fill("use sum");
	await code.press("Enter");
	await code.page.locator(".monaco-diff-editor .monaco-editor.focused").waitFor();
	await code.press("Escape");
	await code.page.locator(".monaco-diff-editor").waitFor({ state: "detached" });
	await code.until(old);
});

test("pause is honoured at once and shown; resume ends it (F6)", async () => {
	await atEnd("pause.py");
	await code.type("a = ");
	await code.ghost("1 + 2");
	await code.command("Mercury: Pause");
	await code.noGhost();
	await code.type("b");
	await code.page.locator('[id="status.languageStatus"]').first().click();
	await code.page.getByText("paused").first().waitFor();
	await code.press("Escape");
	await code.file("pause.py");
	await code.command("Mercury: Resume");
	await code.press("Control+End");
	await code.press("Enter");
	await code.type("c = ");
	await code.ghost("1 + 2");
	assert.match(await code.text(), /a = b\nc =$/);
});
