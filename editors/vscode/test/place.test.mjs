// Where a replacement really changes a text.

import assert from "node:assert/strict";
import { test } from "node:test";
import { bundled } from "./build.mjs";

const { placed } = await bundled('export * from "../src/place";');

const CASES = [
	["an insertion", "return w * h", 0, 12, "return width * h", { start: 8, removed: 0, added: "idth" }],
	["a replacement inside", "a = one", 4, 7, "ore", { start: 5, removed: 1, added: "r" }],
	["a deletion", "abc", 0, 3, "ac", { start: 1, removed: 1, added: "" }],
	["nothing", "abc", 0, 3, "abc", { start: 3, removed: 0, added: "" }],
	["repeated characters", "aa", 0, 2, "aaa", { start: 2, removed: 0, added: "a" }],
	["line ends of the document", "a\r\nb", 0, 4, "a\nx\nb", { start: 3, removed: 0, added: "x\n" }],
	["one half of a pair in common", "x = 😀", 4, 6, "😁", { start: 4, removed: 2, added: "😁" }],
];

for (const [name, text, from, to, replacement, wanted] of CASES) {
	test(name, () => {
		const found = placed(text, from, to, replacement);
		assert.deepEqual(found, wanted);
	});
}
