// VS Code in Chromium: starts code-server with the packaged extension over a server, and drives its page.
// What is waited for is a state of the page; nothing here sleeps and hopes.

import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRequire } from "node:module";

const given = JSON.parse(process.env.MERCURY_EDITOR_TEST);
const { chromium } = createRequire(join(given.tools, "x.js"))("playwright-core");

export const SECONDS = 60_000; // a hang is a failure; nothing is asserted about how fast anything is
export const images = given.images;
export const GHOST = '[class*="ghost-text"]';

function freePort() {
	return new Promise((resolve) => {
		const listener = createServer().listen(0, "127.0.0.1", () => {
			const { port } = listener.address();
			listener.close(() => resolve(port));
		});
	});
}

/** Starts it with files {name: text} in a folder; `server` is a program that speaks LSP on stdio. */
export async function open(files, server, settings = {}) {
	const folder = mkdtempSync(join(tmpdir(), "mercury-code-"));
	const [data, extensions, project] = ["data", "extensions", "project"].map((name) => join(folder, name));
	mkdirSync(join(data, "User"), { recursive: true });
	mkdirSync(join(data, "User", "snippets"));
	mkdirSync(join(data, "Machine"));
	const snippets = { two: { prefix: "two", body: "f(${1:a}, ${2:b})$0" } };
	writeFileSync(join(data, "User", "snippets", "python.json"), JSON.stringify(snippets));
	mkdirSync(project);
	for (const [name, text] of Object.entries(files)) {
		writeFileSync(join(project, name), text);
	}
	const program = join(folder, "mercury-lsp");
	writeFileSync(program, server, { mode: 0o755 });
	// where the program is belongs to the machine: in a remote window VS Code reads such settings from this file only
	writeFileSync(join(data, "Machine", "settings.json"), JSON.stringify({ "mercury.path": program }));
	writeFileSync(
		join(data, "User", "settings.json"),
		JSON.stringify({
			"security.workspace.trust.enabled": false,
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
	const flags = ["--auth", "none", "--disable-telemetry", "--disable-update-check", "--disable-workspace-trust"];
	const child = spawn(
		process.execPath,
		[given.entry, "--bind-addr", `127.0.0.1:${port}`, ...flags, ...where, project],
		{ stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, ...given.env } },
	);
	await new Promise((resolve, reject) => {
		child.stdout.on("data", (text) => String(text).includes("HTTP server listening") && resolve());
		child.on("exit", (status) => reject(new Error(`code-server ended with ${status}`)));
	});
	const browser = await chromium.launch({ executablePath: given.chromium, args: ["--no-sandbox"] });
	const page = await browser.newPage({ viewport: { width: 900, height: 400 }, deviceScaleFactor: 1.5 });
	page.setDefaultTimeout(SECONDS);
	await page.goto(`http://127.0.0.1:${port}/?folder=${encodeURIComponent(project)}`);
	await page.waitForSelector(".monaco-workbench .part.editor");
	await page.keyboard.press("Control+B"); // without the side bar
	const close = async () => {
		await browser.close();
		child.kill();
		await new Promise((resolve) => child.once("exit", resolve));
		rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
	};
	const code = new Code(page, close, project);
	await code.ready();
	return code;
}

class Code {
	constructor(page, close, project) {
		this.page = page;
		this.close = close;
		this.project = project;
	}

	/** Runs a command by its title in the palette. */
	async command(title) {
		await this.page.keyboard.press("F1");
		const input = this.page.locator(".quick-input-widget input").first();
		await input.waitFor();
		await input.fill(`>${title}`);
		await this.page.locator(".quick-input-list .monaco-list-row", { hasText: title }).first().waitFor();
		await this.page.keyboard.press("Enter");
		await this.page.locator(".quick-input-widget").waitFor({ state: "hidden" });
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
				return;
			}
			await this.page.keyboard.press("Escape");
			await this.page.keyboard.press("F1");
		}
		throw new Error("the extension has no server");
	}

	/** Opens a file and waits until its editor has the keys. An editor that still moves the focus closes the list: again. */
	async file(name) {
		const input = this.page.locator(".quick-input-widget input").first();
		const row = this.page.locator(".quick-input-list .monaco-list-row", { hasText: name }).first();
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
		await this.page.locator(".monaco-editor.focused").first().waitFor();
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

	/** Waits until ghost text that contains `part` is shown. */
	async ghost(part) {
		await this.page.waitForFunction(
			([selector, wanted]) =>
				[...document.querySelectorAll(selector)]
					.map((one) => one.textContent)
					.join("")
					.replaceAll("\u00a0", " ")
					.includes(wanted),
			[GHOST, part],
		);
	}

	async noGhost() {
		await this.page.waitForFunction((selector) => !document.querySelector(selector), GHOST);
	}

	press(keys) {
		return this.page.keyboard.press(keys);
	}

	type(text) {
		return this.page.keyboard.type(text, { delay: 30 });
	}

	async picture(name) {
		if (images) {
			await this.page.screenshot({ path: join(images, name) });
		}
	}
}
