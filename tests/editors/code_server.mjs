// VS Code in Chromium: starts code-server with the packaged extension over a server, and drives its page.
// What is waited for is a state of the page; nothing here sleeps and hopes.

import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, afterEach, before } from "node:test";

const given = JSON.parse(process.env.MERCURY_EDITOR_TEST);
const { chromium } = createRequire(join(given.tools, "x.js"))("playwright-core");

export const SECONDS = 180_000; // a hang is a failure; nothing is asserted about how fast anything is
export const images = given.images;
export const GHOST = '[class*="ghost-text"]';
const LOG = "messages.jsonl";

function freePort() {
	return new Promise((resolve) => {
		const listener = createServer().listen(0, "127.0.0.1", () => {
			const { port } = listener.address();
			listener.close(() => resolve(port));
		});
	});
}

/** A program that starts the server over the model of scripted_server.py. */
export const scripted = (folder) => `#!/bin/sh
export FAKE_DELAY=0.25 FAKE_LOG='${join(folder, LOG)}'
cd '${given.root}' && exec '${given.python}' -m tests.editors.scripted_server
`;

/** A program that starts the server as it is, with the embedded model. */
export const real = () => `#!/bin/sh
cd '${given.root}' && exec '${given.python}' -m mercury_lsp serve --stdio
`;

/**
 * Starts it on a folder with files {name: text}.
 *
 * server: of the folder that is thrown away afterwards, the text of a program that speaks LSP on stdio.
 * path: where that program is said to be: in the setting of the machine, or else on PATH.
 * trust: whether VS Code takes the folder as trusted without asking.
 */
export async function open(
	files,
	{ server = scripted, settings = {}, onPath = false, trust = true, height = 400 } = {},
) {
	const folder = mkdtempSync(join(tmpdir(), "mercury-code-"));
	const [data, extensions, project, bin] = ["data", "extensions", "project", "bin"].map((name) => join(folder, name));
	for (const made of [join(data, "User", "snippets"), join(data, "Machine"), project, bin]) {
		mkdirSync(made, { recursive: true });
	}
	const snippets = { two: { prefix: "two", body: "f(${1:a}, ${2:b})$0" } };
	writeFileSync(join(data, "User", "snippets", "python.json"), JSON.stringify(snippets));
	for (const [name, text] of Object.entries(files)) {
		mkdirSync(dirname(join(project, name)), { recursive: true });
		writeFileSync(join(project, name), text.replaceAll("FOLDER", folder), { mode: 0o755 });
	}
	const program = join(bin, "mercury-lsp");
	writeFileSync(program, server(folder), { mode: 0o755 });
	// where the program is belongs to the machine: in a remote window VS Code reads such settings from this file only
	writeFileSync(join(data, "Machine", "settings.json"), JSON.stringify(onPath ? {} : { "mercury.path": program }));
	writeFileSync(
		join(data, "User", "settings.json"),
		JSON.stringify({
			"security.workspace.trust.enabled": !trust,
			"security.workspace.trust.startupPrompt": "never",
			"workbench.startupEditor": "none",
			"workbench.tips.enabled": false,
			"workbench.colorTheme": "Default Dark Modern",
			"workbench.activityBar.location": "hidden",
			"workbench.secondarySideBar.defaultVisibility": "hidden",
			"chat.disableAIFeatures": true,
			"chat.commandCenter.enabled": false,
			"telemetry.telemetryLevel": "off",
			"extensions.autoCheckUpdates": false,
			"editor.minimap.enabled": false,
			"editor.autoClosingBrackets": "never",
			"editor.quickSuggestions": { other: "off", comments: "off", strings: "off" },
			"window.commandCenter": false,
			...settings,
		}),
	);
	const where = ["--user-data-dir", data, "--extensions-dir", extensions];
	const installed = spawnSync(process.execPath, [given.entry, ...where, "--install-extension", given.vsix]);
	if (installed.status !== 0) {
		throw new Error(`the extension could not be installed: ${installed.stderr}`);
	}
	const port = await freePort();
	const flags = ["--auth", "none", "--disable-telemetry", "--disable-update-check"];
	flags.push(...(trust ? ["--disable-workspace-trust"] : []));
	// as if started from a shell: else the environment of a login shell takes the place of this one
	const env = { ...process.env, ...given.env, PATH: `${bin}:${process.env.PATH}`, VSCODE_CLI: "1" };
	const child = spawn(
		process.execPath,
		[given.entry, "--bind-addr", `127.0.0.1:${port}`, ...flags, ...where, project],
		{ stdio: ["ignore", "pipe", "pipe"], env },
	);
	let browser;
	const close = async () => {
		await browser?.close();
		const gone = child.exitCode ?? child.signalCode ?? new Promise((resolve) => child.once("exit", resolve));
		child.kill();
		await gone;
		rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
	};
	try {
		await new Promise((resolve, reject) => {
			child.stdout.on("data", (text) => String(text).includes("HTTP server listening") && resolve());
			child.on("exit", (status) => reject(new Error(`code-server ended with ${status}`)));
		});
		browser = await chromium.launch({ executablePath: given.chromium, args: ["--no-sandbox"] });
		const page = await browser.newPage({ viewport: { width: 900, height }, deviceScaleFactor: 1.5 });
		page.setDefaultTimeout(SECONDS);
		await page.goto(`http://127.0.0.1:${port}/?folder=${encodeURIComponent(project)}`);
		await page.waitForSelector(".monaco-workbench .part.editor");
		await page.keyboard.press("Control+B"); // without the side bar
		return new Code(page, close, folder);
	} catch (error) {
		await close();
		throw error;
	}
}

/** One VS Code for all tests of a file, as `.code` of what is returned. A picture is kept of where a test failed. */
export function inCode(files, options) {
	const it = { code: undefined };
	before(async () => {
		it.code = await open(files, options);
		await it.code.ready();
	});
	after(() => it.code?.close());
	afterEach(async (context) => {
		if (!context.passed && process.env.MERCURY_FAILED) {
			await it.code?.page.screenshot({
				path: `${process.env.MERCURY_FAILED}/${context.name.replaceAll(/\W+/g, "_")}.png`,
			});
		}
		await it.code?.press("Escape");
	});
	return it;
}

class Code {
	constructor(page, close, folder) {
		this.page = page;
		this.close = close;
		this.folder = folder;
	}

	/** Every message between VS Code and the scripted server so far. */
	messages(method) {
		const log = join(this.folder, LOG);
		const lines = existsSync(log) ? readFileSync(log, "utf8").split("\n").slice(0, -1) : [];
		const all = lines.map((line) => JSON.parse(line));
		return method ? all.filter((one) => one.method === method) : all;
	}

	/** How often the model was asked, once the server has answered every request for ghost text. */
	async runs() {
		for (const asked of this.messages("textDocument/inlineCompletion")) {
			await this.answered(asked);
		}
		return this.messages().filter((one) => "run" in one).length;
	}

	/** What the server answered to a request that was logged, once it has. */
	async answered(request) {
		return this.soon(() => this.messages().find((one) => one.sent && !one.method && one.id === request.id));
	}

	/** What `what` returns once it is something. */
	async soon(what) {
		for (const end = Date.now() + SECONDS; ; ) {
			const found = await what();
			if (found) {
				return found;
			}
			if (Date.now() > end) {
				throw new Error(`still nothing: ${what}`);
			}
			await this.page.waitForTimeout(20);
		}
	}

	/** Comes back when the extension has worked off what it was sent before: it has asked for a word, and got none. */
	async settled() {
		await this.command("Mercury: Select Model", { closes: false });
		const asked = this.page.locator(".quick-input-widget", { hasText: "mercury-lsp model list" });
		await asked.waitFor();
		await this.page.keyboard.press("Escape");
		await this.inEditor();
	}

	/** Waits until an editor has the keys. */
	async inEditor() {
		await this.page.locator(".quick-input-widget").waitFor({ state: "hidden" });
		await this.page.waitForFunction(() => document.activeElement?.closest(".editor-instance .monaco-editor"));
	}

	/** Runs a command by its title in the palette. */
	async command(title, { closes = true } = {}) {
		await this.page.keyboard.press("F1");
		const input = this.page.locator(".quick-input-widget input").first();
		await input.waitFor();
		await input.fill(`>${title}`);
		await this.page.locator(".quick-input-list .monaco-list-row.focused", { hasText: title }).first().waitFor();
		await this.page.keyboard.press("Enter");
		if (closes) {
			await this.page.locator(".quick-input-widget").waitFor({ state: "hidden" });
		}
	}

	/** Waits until the extension has a server: only then the palette has the command that pauses it. */
	async ready() {
		await this.page.keyboard.press("F1");
		const input = this.page.locator(".quick-input-widget input").first();
		await input.waitFor();
		for (const end = Date.now() + SECONDS; Date.now() < end; ) {
			await input.fill(">Mercury: ");
			await input.fill(">Mercury: Pause");
			const row = this.page.locator(".quick-input-list .monaco-list-row", { hasText: "Mercury: Pause" }).first();
			const found = await row.waitFor({ timeout: 2000 }).then(
				() => true,
				() => false,
			);
			if (found) {
				await this.page.keyboard.press("Escape");
				return this;
			}
			await this.page.keyboard.press("Escape");
			await this.page.keyboard.press("F1");
		}
		throw new Error("the extension has no server");
	}

	/** Opens a file and waits until its editor has the keys. An editor that still moves the focus closes the list: again. */
	async file(name) {
		const input = this.page.locator(".quick-input-widget input").first();
		const row = this.page.locator(".quick-input-list .monaco-list-row.focused", { hasText: name }).first();
		for (const end = Date.now() + SECONDS; ; ) {
			await this.page.keyboard.press("Control+P");
			try {
				await input.fill(name, { timeout: 5000 });
				await row.waitFor({ timeout: 5000 });
				break;
			} catch (error) {
				if (Date.now() > end) {
					throw error;
				}
			}
		}
		await this.page.keyboard.press("Enter");
		await this.page.locator(".tab.active", { hasText: name }).first().waitFor();
		await this.inEditor();
	}

	/** Lines of the editor as they are on the screen, without ghost text. */
	async text() {
		return this.page.evaluate(() => {
			const lines = [...document.querySelectorAll(".editor-instance .view-lines > .view-line")];
			lines.sort((a, b) => Number.parseFloat(a.style.top) - Number.parseFloat(b.style.top));
			return lines
				.map((line) => {
					const copy = line.cloneNode(true);
					for (const ghost of copy.querySelectorAll('[class*="ghost-text"]')) ghost.remove();
					return copy.textContent.replaceAll("\u00a0", " ").replaceAll("\u200c", "").trimEnd();
				})
				.join("\n")
				.trimEnd();
		});
	}

	/** Waits until the text is, or passes, what is wanted. */
	async until(wanted) {
		const end = Date.now() + SECONDS;
		for (;;) {
			const text = await this.text();
			if (typeof wanted === "function" ? wanted(text) : text === wanted) {
				return text;
			}
			if (Date.now() > end) {
				throw new Error(`the text is still ${JSON.stringify(text)}, wanted ${wanted}`);
			}
			await this.page.waitForTimeout(20);
		}
	}

	/** Waits until ghost text is shown that contains `part`. */
	async ghost(part, timeout = SECONDS) {
		await this.page.waitForFunction(
			([selector, wanted]) => {
				const found = [...document.querySelectorAll(selector)].map((one) => one.textContent).join("");
				return found.trim() !== "" && found.replaceAll("\u00a0", " ").includes(wanted);
			},
			[GHOST, part],
			{ timeout },
		);
	}

	/** The ghost text on the screen. */
	shown() {
		return this.page.evaluate(
			(selector) =>
				[...document.querySelectorAll(selector)]
					.map((one) => one.textContent)
					.join("")
					.replaceAll("\u00a0", " "),
			GHOST,
		);
	}

	/** Runs a piece of Python over a text. */
	python(program, text) {
		return spawnSync(given.python, ["-c", program], { input: text });
	}

	async noGhost() {
		await this.page.waitForFunction((selector) => !document.querySelector(selector), GHOST);
	}

	press(keys) {
		return this.page.keyboard.press(keys);
	}

	/** Opens a file, the cursor at its end, or at the beginning of a line (1-based). */
	async at(name, line) {
		await this.file(name);
		await this.press(line ? "Control+Home" : "Control+End");
		for (let i = 1; i < line; i++) await this.press("ArrowDown");
	}

	/** Selects whole lines (1-based, both inclusive) and has them rewritten by an instruction. */
	async rewrite(first, last, instruction) {
		await this.press("Control+Home");
		for (let i = 1; i < first; i++) await this.press("ArrowDown");
		for (let i = first; i <= last; i++) await this.press("Shift+ArrowDown");
		await this.press("Control+Alt+R");
		const input = this.page.locator(".quick-input-widget input").first();
		await input.waitFor();
		await input.fill(instruction);
		await this.press("Enter");
	}

	/** Waits until a decoration has added text in which `part` stands; returns the number of its line, from 0. What a
	 * decoration adds stands in the style sheet, not in the page's text. */
	async decorated(part) {
		const found = await this.page.waitForFunction((wanted) => {
			const lines = [...document.querySelectorAll(".editor-instance .view-lines > .view-line")];
			lines.sort((a, b) => Number.parseFloat(a.style.top) - Number.parseFloat(b.style.top));
			const row = lines.findIndex((line) =>
				[...line.querySelectorAll("span")].some((one) =>
					getComputedStyle(one, "::after").content.replaceAll("\u00a0", " ").includes(wanted),
				),
			);
			return row < 0 ? undefined : { row };
		}, part);
		return (await found.jsonValue()).row;
	}

	/** Waits until the diff editor proposes a line. */
	difference(line) {
		return this.page.waitForFunction(
			(wanted) =>
				[...document.querySelectorAll(".monaco-diff-editor .modified .view-line")].some((one) =>
					one.textContent.replaceAll("\u00a0", " ").includes(wanted),
				),
			line,
		);
	}

	/** Whether no decoration adds text. */
	undecorated() {
		return this.page.waitForFunction(() =>
			[...document.querySelectorAll(".editor-instance .view-lines span")].every((one) =>
				["none", "normal", '""'].includes(getComputedStyle(one, "::after").content),
			),
		);
	}

	type(text) {
		return this.page.keyboard.type(text, { delay: 30 });
	}

	/** Types, and waits for ghost text. VS Code asks for none while parts of it still load: then with one key more. */
	async suggest(text, part) {
		await this.type(text);
		for (const end = Date.now() + SECONDS; ; ) {
			try {
				await this.ghost(part, 5000);
				return;
			} catch (error) {
				if (Date.now() > end) {
					throw error;
				}
			}
			await this.press("Backspace");
			await this.type(text.at(-1));
		}
	}

	async picture(name) {
		if (images) {
			await this.page.screenshot({ path: join(images, name) });
		}
	}
}
