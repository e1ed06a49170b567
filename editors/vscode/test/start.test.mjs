// Which program is started as the server, and what is done where there is none. VS Code is a fake (vscode.mjs); Python is
// a shell script that makes an environment of shell scripts.

import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { bundled } from "./build.mjs";

const { activate, findServer, reset, state } = await bundled(`
	export { activate } from "../src/extension";
	export { findServer } from "../src/find";
	export { reset, state } from "vscode";
`);

let folder;
let environment;
const before = { path: process.env.PATH, cwd: process.cwd() };

beforeEach(() => {
	folder = mkdtempSync(join(tmpdir(), "mercury-start-"));
	environment = join(folder, "storage", "venv");
	process.env.PATH = join(folder, "path");
	reset();
});
afterEach(() => {
	process.env.PATH = before.path;
	process.chdir(before.cwd);
	rmSync(folder, { recursive: true });
});

/** A program below the folder. */
function program(name, text = "exit 0") {
	const file = join(folder, name);
	mkdirSync(join(file, ".."), { recursive: true });
	writeFileSync(file, `#!/bin/sh\n${text}\n`, { mode: 0o755 });
	return file;
}

/** Runs the extension until it has a server or has said something; returns the server's program. */
async function started() {
	state.clients.length = 0;
	activate({ globalStorageUri: { fsPath: join(folder, "storage") }, subscriptions: [] });
	await until(() => state.clients.length > 0 || state.said.length > 0);
	return state.clients.at(-1)?.server.command;
}

async function until(what) {
	while (!what()) await new Promise((resolve) => setTimeout(resolve, 2));
}

const all = () => ({
	setting: program("set/mercury-lsp"),
	interpreter: program("interpreter/mercury-lsp"),
	python: program("python/mercury-lsp"),
	own: program("storage/venv/bin/mercury-lsp"),
	path: program("path/mercury-lsp"),
});

/** One place after the other is taken away: the next one is found. */
test("the setting, an interpreter, the Python extension's, the own environment, PATH, in this order", async () => {
	const places = all();
	state.settings.path = { global: places.setting };
	state.settings.interpreter = { global: join(folder, "interpreter", "python") };
	state.python = () => join(folder, "python", "python");
	assert.equal(await started(), places.setting);
	delete state.settings.path;
	assert.equal(await started(), places.interpreter);
	delete state.settings.interpreter;
	assert.equal(await started(), places.python);
	state.python = undefined;
	assert.equal(await started(), places.own);
	rmSync(environment, { recursive: true });
	assert.equal(await started(), places.path);
	assert.deepEqual(state.said, []);
});

test("a Python extension that fails is passed over", async () => {
	const path = program("path/mercury-lsp");
	state.python = () => {
		throw new Error("no interpreter selected");
	};
	assert.equal(await started(), path);
});

test("an untrusted workspace names no program: neither by settings nor by the interpreter selected for it", async () => {
	const places = all();
	state.trusted = false;
	state.settings.path = { workspace: places.setting };
	state.settings.interpreter = { workspace: join(folder, "interpreter", "python") };
	state.python = () => join(folder, "python", "python");
	assert.equal(await started(), places.own);
	state.settings.path.global = program("user/mercury-lsp"); // the user's own setting is the user's word
	assert.equal(await started(), state.settings.path.global);
});

test("a relative folder on PATH is not looked into", () => {
	const places = { path: "", interpreter: "", environment: "/none", windows: false, exists: () => true };
	const exists = (file) => !file.startsWith("/none");
	assert.equal(findServer({ ...places, searchPath: ".:bin::/usr/bin", exists }).program, "/usr/bin/mercury-lsp");
	assert.equal(findServer({ ...places, searchPath: ".:bin:", exists }), undefined);
	const windows = { ...places, windows: true, environment: "C:\\none", exists: (file) => !file.startsWith("C:\\none") };
	assert.equal(findServer({ ...windows, searchPath: "bin;C:\\Tools" }).program, "C:\\Tools\\mercury-lsp.exe");
});

test("activation is over before the server has answered", async () => {
	program("path/mercury-lsp");
	state.start = () => new Promise(() => {});
	assert.equal(activate({ globalStorageUri: { fsPath: folder }, subscriptions: [] }), undefined);
	assert.equal(state.clients.length, 0); // nothing was started in the call itself
	await until(() => state.clients.length > 0);
	assert.notEqual(state.contexts["mercury.running"], true);
});

test("a server that does not start is said, not thrown", async () => {
	program("path/mercury-lsp");
	state.start = () => Promise.reject(new Error("broken pipe"));
	await started();
	await until(() => state.status.detail?.includes("does not start"));
});

/** Makes `venv` in the folder that it is given: its Python writes the words it is called with, and installs. */
const VENV = `
if [ "$2" = venv ]; then
	for last; do :; done
	mkdir -p "$last/bin"
	printf '#!/bin/sh\\necho "$@" >>"%s"\\n' "$PWD/said" >"$last/bin/python"
	cp "$last/bin/python" "$last/bin/mercury-lsp"
	chmod +x "$last"/bin/*
fi
`;

test("where there is none it offers an environment of its own, installs with progress, and starts", async () => {
	process.chdir(folder);
	state.settings.interpreter = { global: program("some/python", VENV) };
	process.env.PATH = `${process.env.PATH}:/usr/bin:/bin`;
	state.answers = ["Install"];
	await started();
	assert.match(state.said[0].text, /was not found/);
	assert.ok(state.said[0].choices.includes("Install"));
	await until(() => state.clients.length > 0);
	assert.equal(state.clients[0].server.command, join(environment, "bin", "mercury-lsp"));
	assert.match(readFileSync(join(folder, "said"), "utf8"), /-m pip install .*mercury-lsp\nmodel pull\n/);
	assert.deepEqual(
		state.progress.map((text) => text.split(" ", 1)[0]),
		["making", "installing", "getting"],
	);
});

test("an installation that fails says why and leaves nothing behind", async () => {
	const broken = VENV.replace('echo "$@"', 'echo "no matching distribution" >&2; exit 1; echo "$@"');
	process.chdir(folder);
	state.settings.interpreter = { global: program("some/python", broken) };
	process.env.PATH = `${process.env.PATH}:/usr/bin:/bin`;
	state.answers = ["Install"];
	await started();
	await until(() => state.said.length > 1);
	assert.match(state.said[1].text, /could not be installed: no matching distribution/);
	assert.ok(!existsSync(environment));
	assert.equal(state.clients.length, 0);
});

test("an installation that is cancelled leaves nothing behind, and nothing is said", async () => {
	const slow = VENV.replace('echo "$@"', 'exec sleep 600; echo "$@"');
	process.chdir(folder);
	state.settings.interpreter = { global: program("some/python", slow) };
	process.env.PATH = `${process.env.PATH}:/usr/bin:/bin`;
	state.answers = ["Install"];
	state.cancels = "installing";
	await started();
	await until(() => state.progress.some((text) => text.includes("installing")));
	await until(() => !existsSync(environment));
	assert.equal(state.said.length, 1);
	assert.equal(state.clients.length, 0);
});
