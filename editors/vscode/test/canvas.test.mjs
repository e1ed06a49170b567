// The canvas as lines of text.

import assert from "node:assert/strict";
import { test } from "node:test";
import { bundled } from "./build.mjs";

const { canvasLines } = await bundled('export { canvasLines } from "../src/canvas";');
const slots = (...texts) => texts.map((text) => ({ text: text ?? "", state: text === null ? "masked" : "settled" }));

test("masked slots are seen, lines are lines", () => {
	assert.deepEqual(canvasLines(slots("x = ", null, null, "\n    y"), ""), ["x = ░░", "    y"]);
});

test("the first line is indented as the code is, whether or not the draft repeats it", () => {
	assert.deepEqual(canvasLines(slots("return", " 1"), "    "), ["    return 1"]);
	assert.deepEqual(canvasLines(slots("    ", "return", " 1"), "    "), ["    return 1"]);
});
