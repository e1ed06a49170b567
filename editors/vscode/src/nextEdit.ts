// The next edit: shown where it is; Tab jumps there, Tab accepts, Escape dismisses it for good.
//
// One that only adds text on the cursor's line, right of the cursor, is shown as ghost text: VS Code asks the language
// client for some, and gets it. Staleness is checked twice: by request, and by the document's version when the answer is
// drawn or accepted.

import * as vscode from "vscode";
import type { LanguageClient } from "vscode-languageclient/node";
import { asContent } from "./canvas";
import { type Place, placed } from "./place";
import { NEXT_EDIT, type NextEdits, REJECTED } from "./protocol";

/** After a change for which VS Code asks for no ghost text, as a paste. */
const PAUSE_MS = 1000;
const MOST_DISMISSED = 100;
const METHOD_NOT_FOUND = -32601;

/** The mark in the gutter: a chevron, blue as information is in either kind of theme. */
const ARROW = `data:image/svg+xml,${encodeURIComponent(
	'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path d="M3 3l5 5-5 5M8 3l5 5-5 5" fill="none" stroke="#3794ff" stroke-width="2"/></svg>',
)}`;

interface Shown {
	editor: vscode.TextEditor;
	version: number;
	range: vscode.Range;
	text: string;
	key: string;
	/** What the server knows it by. */
	item: { id?: string; textDocument: { uri: string; version: number } };
	command?: { command: string; arguments?: unknown[] };
	/** The cursor at which it is ghost text; elsewhere it is drawn where it is. */
	ghostAt?: vscode.Position;
}

export class NextEdit implements vscode.Disposable {
	private readonly gone = vscode.window.createTextEditorDecorationType({
		backgroundColor: new vscode.ThemeColor("diffEditor.removedTextBackground"),
		textDecoration: "line-through",
		overviewRulerColor: new vscode.ThemeColor("editorOverviewRuler.infoForeground"),
		overviewRulerLane: vscode.OverviewRulerLane.Right,
	});
	private readonly come = vscode.window.createTextEditorDecorationType({});
	private readonly line = vscode.window.createTextEditorDecorationType({
		isWholeLine: true,
		gutterIconPath: vscode.Uri.parse(ARROW),
		gutterIconSize: "contain",
		backgroundColor: new vscode.ThemeColor("editor.wordHighlightBackground"),
	});
	private readonly disposables: vscode.Disposable[];
	private readonly dismissed: string[] = [];
	private shown: Shown | undefined;
	private timer: NodeJS.Timeout | undefined;
	private asking: vscode.CancellationTokenSource | undefined;
	/** Something has changed, and ghost text was asked for, but is not there yet. */
	private waits = false;
	private unanswered: LanguageClient | undefined;

	constructor(private readonly client: () => LanguageClient | undefined) {
		this.disposables = [
			this.gone,
			this.come,
			this.line,
			vscode.workspace.onDidChangeTextDocument((event) => this.changed(event)),
			vscode.window.onDidChangeTextEditorSelection((event) => this.moved(event.textEditor)),
			vscode.window.onDidChangeActiveTextEditor(() => this.hide()),
		];
	}

	private changed(event: vscode.TextDocumentChangeEvent): void {
		if (event.document !== vscode.window.activeTextEditor?.document || event.contentChanges.length === 0) {
			return;
		}
		this.hide();
		if (event.reason !== undefined) {
			return; // after an undo or redo nothing is offered
		}
		if (vscode.workspace.getConfiguration("mercury", event.document).get("nextEdit.enabled")) {
			this.timer = setTimeout(() => {
				this.timer = undefined;
				void this.ask();
			}, PAUSE_MS);
		}
	}

	/** The server is asked for ghost text: that comes first. */
	waitForGhost(document: vscode.TextDocument): void {
		if (document === vscode.window.activeTextEditor?.document) {
			this.waits ||= this.timer !== undefined;
			clearTimeout(this.timer);
			this.timer = undefined;
		}
	}

	/** The server has answered how much ghost text there is: a next edit is looked for only where there is none. */
	suggested(document: vscode.TextDocument, count: number): void {
		if (this.waits && document === vscode.window.activeTextEditor?.document) {
			this.waits = false;
			if (count === 0) {
				void this.ask();
			}
		}
	}

	private moved(editor: vscode.TextEditor): void {
		const { active } = editor.selection;
		const before = editor.document.lineAt(active.line).text.slice(0, active.character);
		void vscode.commands.executeCommand("setContext", "mercury.inIndentation", !this.shown && before.trim() === "");
		if (this.shown?.editor === editor) {
			if (this.shown.ghostAt && !this.shown.ghostAt.isEqual(active)) {
				delete this.shown.ghostAt; // VS Code has taken the ghost text away
				this.draw(this.shown);
			}
			this.setContext(true);
		}
	}

	private setContext(visible: boolean): void {
		const shown = this.shown;
		const row = shown?.editor.selection.active.line ?? -1;
		const at = shown !== undefined && row >= shown.range.start.line && row <= shown.range.end.line;
		const drawn = visible && !shown?.ghostAt;
		void vscode.commands.executeCommand("setContext", "mercury.nextEdit", drawn);
		void vscode.commands.executeCommand("setContext", "mercury.nextEditAtCursor", drawn && at);
	}

	private async ask(): Promise<void> {
		const editor = vscode.window.activeTextEditor;
		const client = this.client();
		if (!editor || !client || client === this.unanswered || editor.selections.length > 1) {
			return;
		}
		const { document } = editor;
		const version = document.version;
		const source = new vscode.CancellationTokenSource();
		this.asking = source;
		const convert = client.code2ProtocolConverter;
		const params = {
			textDocument: { uri: convert.asUri(document.uri), version },
			position: convert.asPosition(editor.selection.active),
			context: { triggerKind: 2 },
		};
		let answer: NextEdits | null;
		try {
			answer = await client.sendRequest<NextEdits | null>(NEXT_EDIT, params, source.token);
		} catch (error) {
			if ((error as { code?: number }).code === METHOD_NOT_FOUND) {
				this.unanswered = client;
			}
			return;
		}
		const edit = answer?.edits[0];
		const is = vscode.window.activeTextEditor === editor && document.version === version;
		if (!edit || source.token.isCancellationRequested || !is || edit.textDocument.uri !== params.textDocument.uri) {
			return;
		}
		const range = document.validateRange(client.protocol2CodeConverter.asRange(edit.range));
		const key = [
			params.textDocument.uri,
			document.getText(range),
			edit.text,
			document.lineAt(range.start.line).text,
		].join("\0");
		if (document.getText(range) === edit.text || this.dismissed.includes(key)) {
			return;
		}
		const item = { ...(edit.id ? { id: edit.id } : {}), textDocument: edit.textDocument };
		const command = edit.command && { command: edit.command.command, arguments: edit.command.arguments ?? [] };
		this.show({ editor, version, range, text: edit.text, key, item, ...(command ? { command } : {}) });
	}

	private show(shown: Shown): void {
		this.shown = shown;
		const { active } = shown.editor.selection;
		const { line, column, removed, added } = where(shown);
		const rest = shown.editor.document.lineAt(line).text.slice(column);
		if (!removed && line === active.line && column >= active.character && (rest === "" || !added.includes("\n"))) {
			shown.ghostAt = active;
			void vscode.commands.executeCommand("editor.action.inlineSuggest.trigger");
		} else {
			this.draw(shown);
		}
		void vscode.commands.executeCommand("setContext", "mercury.inIndentation", false);
		this.setContext(true);
	}

	/** The next edit as the whole line that it makes of the cursor's, if it is to be ghost text there. */
	ghost(document: vscode.TextDocument, position: vscode.Position): vscode.InlineCompletionItem | undefined {
		const shown = this.shown;
		if (
			!shown?.ghostAt?.isEqual(position) ||
			shown.editor.document !== document ||
			document.version !== shown.version
		) {
			return undefined;
		}
		const { text, range } = document.lineAt(position.line);
		const { column, added } = where(shown);
		return new vscode.InlineCompletionItem(
			text.slice(0, column) + added + text.slice(column),
			range,
			shown.command && {
				title: "",
				...shown.command,
			},
		);
	}

	/** Draws it where it is, beside the code that it changes. */
	private draw(shown: Shown): void {
		const { editor, text } = shown;
		const { document } = editor;
		const { start, removed, added } = where(shown);
		const range = new vscode.Range(document.positionAt(start), document.positionAt(start + removed));
		const [first = "", ...more] = added.split("\n");
		const hover = new vscode.MarkdownString().appendCodeblock(text, editor.document.languageId);
		editor.setDecorations(this.line, [{ range: new vscode.Range(range.start, range.start) }]);
		editor.setDecorations(this.gone, [{ range, hoverMessage: hover }]);
		const label = more.length > 0 ? `${first} ⏎ ${more.join(" ⏎ ")}` : first;
		editor.setDecorations(this.come, [
			{
				range: new vscode.Range(range.end, range.end),
				renderOptions: {
					after: {
						contentText: asContent(label),
						backgroundColor: new vscode.ThemeColor("diffEditor.insertedTextBackground"),
						color: new vscode.ThemeColor("editor.foreground"),
					},
				},
			},
		]);
	}

	/** Moves the cursor to the edit. */
	jump(): void {
		if (this.shown) {
			const at = this.shown.range.start;
			this.shown.editor.selection = new vscode.Selection(at, at);
			this.shown.editor.revealRange(this.shown.range, vscode.TextEditorRevealType.InCenterIfOutsideViewport);
		}
	}

	/** Applies the edit as one undo step and looks for the next one. */
	async accept(): Promise<void> {
		const shown = this.shown;
		this.hide();
		if (!shown || shown.editor.document.version !== shown.version) {
			return;
		}
		await shown.editor.edit((edit) => edit.replace(shown.range, shown.text));
		if (shown.command) {
			await this.client()?.sendRequest("workspace/executeCommand", shown.command);
		}
	}

	/** Takes the edit away; neither this extension nor the server offers it again. */
	dismiss(): void {
		if (this.shown) {
			this.dismissed.push(this.shown.key);
			this.dismissed.splice(0, Math.max(0, this.dismissed.length - MOST_DISMISSED));
			void this.client()?.sendNotification(REJECTED, { item: this.shown.item });
			this.hide();
		}
	}

	/** Takes ghost text away, and the completion menu with it; what it said is not offered again at this place. */
	async dismissGhost(): Promise<void> {
		const editor = vscode.window.activeTextEditor;
		await vscode.commands.executeCommand("editor.action.inlineSuggest.hide");
		await vscode.commands.executeCommand("hideSuggestWidget");
		const client = this.client();
		if (this.shown?.ghostAt) {
			this.dismiss();
		} else if (client && editor) {
			const convert = client.code2ProtocolConverter;
			await client.sendNotification(REJECTED, {
				textDocument: { uri: convert.asUri(editor.document.uri) },
				position: convert.asPosition(editor.selection.active),
			});
		}
	}

	hide(): void {
		clearTimeout(this.timer);
		this.timer = undefined;
		this.waits = false;
		this.asking?.cancel();
		this.asking = undefined;
		if (this.shown) {
			for (const type of [this.gone, this.come, this.line]) {
				this.shown.editor.setDecorations(type, []);
			}
			this.shown = undefined;
		}
		this.setContext(false);
	}

	dispose(): void {
		this.hide();
		for (const one of this.disposables) {
			one.dispose();
		}
	}
}

/** Where the edit really changes its document. */
function where(shown: Shown): Place & { line: number; column: number } {
	const { document } = shown.editor;
	const place = placed(
		document.getText(),
		document.offsetAt(shown.range.start),
		document.offsetAt(shown.range.end),
		shown.text,
	);
	const { line, character } = document.positionAt(place.start);
	return { ...place, line, column: character };
}
