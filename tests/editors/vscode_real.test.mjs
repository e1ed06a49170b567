// VS Code with the packaged extension, the server as it is and the embedded model, whose words nobody knows beforehand:
// what is checked is what becomes of them in the editor. The proposed API is closed, as in the VS Code that people have.

import assert from "node:assert/strict";
import { test } from "node:test";
import { inCode, real } from "./code_server.mjs";

const MEAN =
	"def mean(values):\n    total = 0\n    for value in values:\n        total += value\n    return total / len(values)";
const FILES = {
	"area.py": 'import math\n\n\ndef circle_area(radius):\n    """Area of a circle."""\n',
	"words.py":
		'def count_words(text):\n    """Count how often each word occurs."""\n    counts = {}\n    for word in text.split():\n',
	"total.py": "def total(values)\n    return sum(values)\n\n\nprint(total([1, 2, 3]))\n",
	"mean.py": `${MEAN}\n`,
};

const vs = inCode(FILES, { server: real, height: 430 });

/** Whether Python takes a text. */
const isPython = (text) => vs.code.python("import ast, sys; ast.parse(sys.stdin.read())", text).status === 0;

test("ghost text appears, a word is taken, Tab takes the rest, one undo takes it back", async () => {
	const { code } = vs;
	await code.at("area.py");
	const before = await code.text();
	await code.suggest("    return ", "");
	await code.picture("vscode-ghost-text.png");
	const ghost = await code.shown();
	await code.press("Control+ArrowRight");
	const word = await code.until((text) => text.length > `${before}\n    return`.length);
	assert.ok(`${before}\n    return ${ghost}`.startsWith(word), `${word} begins with ${ghost}`);
	if (word !== `${before}\n    return ${ghost}`) {
		await code.ghost("");
		await code.press("Tab");
	}
	await code.until(`${before}\n    return ${ghost}`);
	assert.ok(isPython(await code.text()));
	await code.press("Control+Z");
	await code.until(
		(text) => text !== `${before}\n    return ${ghost}` && `${before}\n    return ${ghost}`.startsWith(text),
	);
});

test("the light bulb mends a syntax error, in one undo step", async () => {
	const { code } = vs;
	await code.at("total.py", 1);
	await code.press("End");
	const broken = await code.text();
	assert.ok(!isPython(broken));
	await code.press("Control+.");
	const entry = code.page.locator(".action-widget .monaco-list-row", { hasText: /syntax/i }).first();
	await entry.waitFor();
	await code.picture("vscode-quick-fix.png");
	await entry.click();
	const mended = await code.until(isPython);
	assert.match(mended, /print\(total\(\[1, 2, 3\]\)\)/);
	await code.press("Control+Z");
	await code.until(broken);
});

test("a rewrite fills in before one's eyes, is accepted, and undone in one step", async () => {
	const { code } = vs;
	await code.file("mean.py");
	await code.until(MEAN);
	await code.rewrite(2, 5, "use the built-in function sum");
	await code.decorated("passes");
	await code.difference("def mean(values):");
	await code.picture("vscode-rewrite-diff.png");
	await code.press("Control+Enter");
	await code.page.locator(".monaco-diff-editor").waitFor({ state: "detached" });
	const rewritten = await code.until((text) => text !== MEAN && text.startsWith("def mean(values):\n"));
	assert.ok(isPython(rewritten), rewritten);
	await code.press("Control+Z");
	await code.until(MEAN);
});

test("paused it suggests nothing, resumed it does", async () => {
	const { code } = vs;
	await code.at("words.py");
	await code.command("Mercury: Pause");
	await code.inEditor();
	await code.type("        counts[word]");
	await code.page.locator('[id="status.languageStatus"]').first().click();
	await code.page.getByText("paused").first().waitFor();
	await code.press("Escape");
	await code.noGhost();
	await code.at("words.py");
	await code.command("Mercury: Resume");
	await code.inEditor();
	await code.suggest(" = ", "");
});
