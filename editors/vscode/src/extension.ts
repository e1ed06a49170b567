// Wires the parts together. Nothing here waits for the server: activation is over before it has started.

import * as vscode from "vscode";
import type { LanguageClient } from "vscode-languageclient/node";
import { NextEdit } from "./nextEdit";
import { CANVAS, type Canvas, STATUS, type Status } from "./protocol";
import { Rewriter } from "./rewrite";
import { Server } from "./server";
import { StatusItem } from "./status";

const SNOOZE_MINUTES = 30;

let server: Server | undefined;

export function activate(context: vscode.ExtensionContext): void {
	const log = vscode.window.createOutputChannel("Mercury", { log: true });
	const status = new StatusItem();
	const client = () => (server?.client?.isRunning() ? server.client : undefined);
	const rewriter = new Rewriter(client);
	const nextEdit = new NextEdit(client);

	const listen = (started: LanguageClient) => {
		started.onNotification(STATUS, (params: Status) => status.update(params));
		started.onNotification(CANVAS, (params: Canvas) => rewriter.draw(params));
	};
	server = new Server(context, log, listen, (text) => status.missing(text), nextEdit);
	const current = server;

	const execute = async (command: string, argument?: object): Promise<void> => {
		await client()?.sendRequest("workspace/executeCommand", { command, arguments: argument ? [argument] : [] });
	};
	const quiet = async (command: string, argument?: object): Promise<void> => {
		nextEdit.hide();
		await vscode.commands.executeCommand("editor.action.inlineSuggest.hide");
		await execute(command, argument);
	};
	const commands: Record<string, (...given: never[]) => unknown> = {
		rewrite: (instruction?: string) => rewriter.start(typeof instruction === "string" ? instruction : undefined),
		fill: () => rewriter.fill(),
		acceptRewrite: () => rewriter.accept(),
		rejectRewrite: () => rewriter.reject(),
		nextCandidate: () => nextCandidate(client()),
		jumpToNextEdit: () => nextEdit.jump(),
		acceptNextEdit: () => nextEdit.accept(),
		dismissNextEdit: () => nextEdit.dismiss(),
		dismissGhost: () => nextEdit.dismissGhost(),
		pause: () => quiet("mercury.pause"),
		resume: () => execute("mercury.resume"),
		snooze: () => quiet("mercury.snooze", { minutes: SNOOZE_MINUTES }),
		selectModel: async () => {
			const name = await vscode.window.showInputBox({ prompt: "Name, as `mercury-lsp model list` prints it" });
			await (name ? execute("mercury.selectModel", { name }) : undefined);
		},
		menu: () => menu(status.isPaused),
		restart: () => current.restart(),
		showLog: () => log.show(),
		install: () => current.install(),
	};
	for (const [name, run] of Object.entries(commands)) {
		context.subscriptions.push(vscode.commands.registerCommand(`mercury.editor.${name}`, run));
	}
	context.subscriptions.push(
		log,
		status,
		rewriter,
		nextEdit,
		vscode.workspace.onDidGrantWorkspaceTrust(() => void current.restart()),
		vscode.workspace.onDidChangeConfiguration((event) => {
			if (event.affectsConfiguration("mercury.path") || event.affectsConfiguration("mercury.interpreter")) {
				void current.restart();
			}
		}),
	);
	void current.start();
}

export async function deactivate(): Promise<void> {
	await server?.stop();
}

/** Has the server find another text for the cursor, and shows it. */
async function nextCandidate(client: LanguageClient | undefined): Promise<void> {
	const editor = vscode.window.activeTextEditor;
	if (!client || !editor) {
		return;
	}
	const convert = client.code2ProtocolConverter;
	const argument = {
		uri: convert.asUri(editor.document.uri),
		position: convert.asPosition(editor.selection.active),
	};
	await client.sendRequest("workspace/executeCommand", { command: "mercury.cycle", arguments: [argument] });
	await vscode.commands.executeCommand("editor.action.inlineSuggest.hide");
	await vscode.commands.executeCommand("editor.action.inlineSuggest.trigger");
}

async function menu(paused: boolean): Promise<void> {
	const entries: [string, string][] = [
		paused ? ["$(play) Resume", "resume"] : ["$(debug-pause) Pause", "pause"],
		[`$(bell-slash) Snooze for ${SNOOZE_MINUTES} minutes`, "snooze"],
		["$(server) Select model…", "selectModel"],
		["$(refresh) Restart the server", "restart"],
		["$(output) Show the log", "showLog"],
	];
	const picked = await vscode.window.showQuickPick(
		entries.map(([label, command]) => ({ label, command })),
		{ title: "Mercury" },
	);
	if (picked) {
		await vscode.commands.executeCommand(`mercury.editor.${picked.command}`);
	}
}
