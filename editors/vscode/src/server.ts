// Finds, starts and stops the server, and says what the language client does differently here.

import { existsSync } from "node:fs";
import { join } from "node:path";
import * as vscode from "vscode";
import { LanguageClient, type LanguageClientOptions, type ServerOptions, Trace } from "vscode-languageclient/node";
import { findServer } from "./find";
import { install } from "./install";
import type { NextEdit } from "./nextEdit";

/** Settings that only this extension knows; the server would report them as unknown. */
const OWN = ["path", "interpreter", "nextEdit", "trace"];

const SELECTOR = [{ scheme: "file" }, { scheme: "untitled" }, { notebook: "*" }];

interface PythonExtension {
	environments: { getActiveEnvironmentPath(resource?: vscode.Uri): { path: string } };
}

/** The settings of the server: what the user set, without the extension's own. */
export function serverSettings(scope?: vscode.Uri): Record<string, unknown> {
	const all = vscode.workspace.getConfiguration("mercury", scope);
	const copy = JSON.parse(JSON.stringify(all)) as Record<string, unknown>;
	return Object.fromEntries(Object.entries(copy).filter(([name]) => !OWN.includes(name)));
}

/** A setting that names a program: where the workspace is not trusted, only the user's own counts. */
function program(name: "path" | "interpreter"): string {
	const configuration = vscode.workspace.getConfiguration("mercury");
	const set = vscode.workspace.isTrusted
		? configuration.get<string>(name)
		: configuration.inspect<string>(name)?.globalValue;
	return set ?? "";
}

/** The interpreter of the setting, or of the Python extension if it is there and the workspace is trusted: it may have
 * selected one of the workspace's. */
async function interpreter(): Promise<string> {
	const set = program("interpreter");
	if (set || !vscode.workspace.isTrusted) {
		return set;
	}
	const python = vscode.extensions.getExtension<PythonExtension>("ms-python.python");
	try {
		const api = await python?.activate();
		return api?.environments.getActiveEnvironmentPath(vscode.workspace.workspaceFolders?.[0]?.uri).path ?? "";
	} catch {
		return ""; // it is not ours to repair
	}
}

export class Server {
	client: LanguageClient | undefined;

	constructor(
		private readonly context: vscode.ExtensionContext,
		private readonly log: vscode.LogOutputChannel,
		private readonly listen: (client: LanguageClient) => void,
		private readonly missing: (text: string) => void,
		private readonly nextEdit: Pick<NextEdit, "waitForGhost" | "suggested" | "ghost">,
	) {}

	private get environment(): string {
		return join(this.context.globalStorageUri.fsPath, "venv");
	}

	/** Starts the server, or offers to install it where there is none. */
	async start(): Promise<void> {
		const found = findServer({
			path: program("path"),
			interpreter: await interpreter(),
			environment: this.environment,
			searchPath: process.env.PATH ?? "",
			windows: process.platform === "win32",
			exists: existsSync,
		});
		if (!found) {
			this.missing("mercury-lsp was not found: install it, or set mercury.path");
			void this.offer();
			return;
		}
		this.log.info(`server: ${found.program} (${found.because})`);
		const run: ServerOptions = { command: found.program, args: ["serve", "--stdio"] };
		const client = new LanguageClient("mercury", "Mercury", run, this.options());
		this.client = client;
		this.listen(client);
		try {
			await client.start();
			await client.setTrace(Trace.fromString(vscode.workspace.getConfiguration("mercury").get("trace.server", "off")));
			await vscode.commands.executeCommand("setContext", "mercury.running", true);
		} catch (error) {
			this.log.error(error instanceof Error ? error : String(error));
			this.missing(`${found.program} does not start: see the log`);
		}
	}

	private options(): LanguageClientOptions {
		return {
			documentSelector: SELECTOR,
			outputChannel: this.log,
			traceOutputChannel: this.log,
			revealOutputChannelOn: 4, // never: the status item says what is wrong
			initializationOptions: { mercury: { ...serverSettings(), canvas: true } },
			middleware: {
				// text that was computed for one cursor would be put at all of them
				provideInlineCompletionItems: async (document, position, context, token, next) => {
					const editor = vscode.window.activeTextEditor;
					if (editor && editor.selections.length > 1) {
						return [];
					}
					const here = this.nextEdit.ghost(document, position);
					if (here) {
						return [here];
					}
					this.nextEdit.waitForGhost(document);
					const { version } = document;
					const found = (await next(document, position, context, token)) ?? [];
					const items = Array.isArray(found) ? found : found.items;
					if (!token.isCancellationRequested && document.version === version) {
						this.nextEdit.suggested(document, items.length);
					}
					return items;
				},
				workspace: {
					configuration: (params) =>
						params.items.map((item) =>
							item.section === "mercury" || item.section === undefined
								? serverSettings(item.scopeUri ? vscode.Uri.parse(item.scopeUri) : undefined)
								: null,
						),
				},
			},
		};
	}

	/** Asks no other part of VS Code for anything: when the window closes, nobody would answer. */
	async stop(): Promise<void> {
		const client = this.client;
		this.client = undefined;
		try {
			await client?.dispose();
		} catch (error) {
			this.log.warn(String(error)); // it never came so far as to run
		}
	}

	async restart(): Promise<void> {
		await this.stop();
		await vscode.commands.executeCommand("setContext", "mercury.running", false);
		await this.start();
	}

	private async offer(): Promise<void> {
		const choice = await vscode.window.showWarningMessage(
			"Mercury: the server mercury-lsp was not found.",
			"Install",
			"Open Settings",
		);
		if (choice === "Install") {
			await this.install();
		} else if (choice === "Open Settings") {
			await vscode.commands.executeCommand("workbench.action.openSettings", "mercury.path");
		}
	}

	async install(): Promise<void> {
		if (await install(this.environment, await interpreter(), this.log)) {
			await this.restart();
		}
	}
}
