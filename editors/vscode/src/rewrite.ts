// Rewrites the selected lines by an instruction: the draft fills in, then a diff to accept or to reject.

import * as vscode from "vscode";
import type { LanguageClient, WorkspaceEdit } from "vscode-languageclient/node";
import { CanvasView } from "./canvas";
import type { Canvas, Changed } from "./protocol";

const SCHEME = "mercury-rewrite";
const CONTEXT = "mercury.proposal";

interface Proposal {
	document: vscode.TextDocument;
	version: number;
	edit: vscode.WorkspaceEdit;
	shown: vscode.Uri;
	before: vscode.Uri;
}

export class Rewriter implements vscode.Disposable, vscode.TextDocumentContentProvider {
	private readonly view = new CanvasView();
	private readonly texts = new Map<string, string>();
	private readonly disposables: vscode.Disposable[];
	private running: vscode.TextEditor | undefined;
	private proposal: Proposal | undefined;
	private count = 0;

	constructor(private readonly client: () => LanguageClient | undefined) {
		this.disposables = [
			this.view,
			vscode.workspace.registerTextDocumentContentProvider(SCHEME, this),
			vscode.workspace.onDidChangeTextDocument((event) => {
				if (event.document === this.proposal?.document && event.contentChanges.length > 0) {
					void this.reject(); // it is about a text that is gone
				}
			}),
			vscode.window.tabGroups.onDidChangeTabs((event) => {
				if (this.proposal && event.closed.some((tab) => this.shows(tab))) {
					void this.reject();
				}
			}),
		];
	}

	provideTextDocumentContent(uri: vscode.Uri): string {
		return this.texts.get(uri.toString()) ?? "";
	}

	/** Asks for an instruction and rewrites the lines of the selection. */
	async start(given?: string): Promise<void> {
		const editor = vscode.window.activeTextEditor;
		if (!editor) {
			return;
		}
		const instruction =
			given ??
			(await vscode.window.showInputBox({
				title: "Mercury: Rewrite",
				prompt: "What should become of the selected lines? Leave it empty to improve them.",
				placeHolder: "for example: handle an empty list",
			}));
		if (instruction === undefined) {
			return;
		}
		const { start, end } = editor.selection;
		const last = end.character === 0 && end.line > start.line ? end.line - 1 : end.line;
		const range = new vscode.Range(start.line, 0, last, editor.document.lineAt(last).text.length);
		await this.run(editor, "mercury.rewrite", instruction || "Rewrite", (client) => ({
			range: client.code2ProtocolConverter.asRange(range),
			instruction,
		}));
	}

	/** Fills the hole at the cursor. */
	async fill(): Promise<void> {
		const editor = vscode.window.activeTextEditor;
		if (editor) {
			await this.run(editor, "mercury.fill", "Fill", (client) => ({
				position: client.code2ProtocolConverter.asPosition(editor.selection.active),
			}));
		}
	}

	private async run(
		editor: vscode.TextEditor,
		command: string,
		title: string,
		place: (client: LanguageClient) => object,
	): Promise<void> {
		const client = this.client();
		if (!client) {
			void vscode.window.showWarningMessage("Mercury: the server is not running.");
			return;
		}
		await this.reject();
		const uri = client.code2ProtocolConverter.asUri(editor.document.uri);
		const params = { command, arguments: [{ uri, apply: false, ...place(client) }] };
		const options = { location: vscode.ProgressLocation.Window, title: `Mercury: ${title}`, cancellable: true };
		this.running = editor;
		let changed: Changed | null = null;
		try {
			changed = await vscode.window.withProgress(options, (_, token) =>
				client.sendRequest<Changed | null>("workspace/executeCommand", params, token),
			);
		} catch (error) {
			const text = error instanceof Error ? error.message : String(error);
			void vscode.window.showErrorMessage(`Mercury: ${text}`);
		} finally {
			this.running = undefined;
			this.view.clear();
		}
		if (changed?.edit) {
			await this.propose(client, editor.document, changed.edit, title);
		}
	}

	/** A step of the draft. */
	draw(canvas: Canvas): void {
		const editor = this.running;
		const client = this.client();
		const ours = editor && client?.code2ProtocolConverter.asUri(editor.document.uri) === canvas.uri;
		if (ours && canvas.version === editor.document.version && canvas.slots.length > 0) {
			this.view.show(editor, canvas);
		}
	}

	private async propose(
		client: LanguageClient,
		document: vscode.TextDocument,
		wire: WorkspaceEdit,
		title: string,
	): Promise<void> {
		const edit = await client.protocol2CodeConverter.asWorkspaceEdit(wire);
		const edits = edit.get(document.uri);
		if (edits.length === 0) {
			return;
		}
		let text = document.getText();
		for (const one of [...edits].sort((a, b) => b.range.start.compareTo(a.range.start))) {
			text =
				text.slice(0, document.offsetAt(one.range.start)) + one.newText + text.slice(document.offsetAt(one.range.end));
		}
		const number = ++this.count;
		const named = (side: string) => document.uri.with({ scheme: SCHEME, query: `${side}=${number}` });
		const shown = named("after");
		const before = named("before");
		this.texts.set(shown.toString(), text);
		this.texts.set(before.toString(), document.getText());
		this.proposal = { document, version: document.version, edit, shown, before };
		await vscode.commands.executeCommand("setContext", CONTEXT, true);
		const name = vscode.workspace.asRelativePath(document.uri);
		await vscode.commands.executeCommand("vscode.diff", before, shown, `${name}: ${title}`, { preview: true });
	}

	/** Applies the proposal as one undo step. */
	async accept(): Promise<void> {
		const proposal = this.proposal;
		if (!proposal) {
			return;
		}
		await this.close();
		if (proposal.document.version !== proposal.version || proposal.document.isClosed) {
			void vscode.window.showWarningMessage("Mercury: the text has changed since; ask again.");
			return;
		}
		await vscode.window.showTextDocument(proposal.document);
		await vscode.workspace.applyEdit(proposal.edit);
	}

	async reject(): Promise<void> {
		const proposal = this.proposal;
		if (proposal) {
			await this.close();
			if (!proposal.document.isClosed) {
				await vscode.window.showTextDocument(proposal.document);
			}
		}
	}

	private async close(): Promise<void> {
		const tabs = vscode.window.tabGroups.all.flatMap((group) => group.tabs).filter((tab) => this.shows(tab));
		this.proposal = undefined;
		this.texts.clear();
		await vscode.commands.executeCommand("setContext", CONTEXT, false);
		await vscode.window.tabGroups.close(tabs);
	}

	private shows(tab: vscode.Tab): boolean {
		return tab.input instanceof vscode.TabInputTextDiff && tab.input.modified.scheme === SCHEME;
	}

	dispose(): void {
		for (const one of this.disposables) {
			one.dispose();
		}
	}
}
