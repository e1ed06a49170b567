// Draws a draft in the place of the lines that it would replace. The text of the document is not touched.

import * as vscode from "vscode";
import { type Canvas, MASK, type Slot } from "./protocol";

/** Text and whether it is settled. */
interface Piece {
	text: string;
	state: Slot["state"];
}

/** The canvas as lines of pieces; neighbours in the same state are joined. */
export function canvasLines(slots: readonly Slot[]): Piece[][] {
	const lines: Piece[][] = [[]];
	for (const slot of slots) {
		const parts = (slot.state === "masked" ? MASK : slot.text).split("\n");
		parts.forEach((text, index) => {
			if (index > 0) {
				lines.push([]);
			}
			const line = lines[lines.length - 1];
			const last = line?.at(-1);
			if (last && last.state === slot.state) {
				last.text += text;
			} else if (text) {
				line?.push({ text, state: slot.state });
			}
		});
	}
	return lines;
}

const COLOURS: Record<Slot["state"], string> = {
	masked: "editorGhostText.foreground",
	tentative: "editorWarning.foreground",
	settled: "editor.foreground",
};

export class CanvasView implements vscode.Disposable {
	private readonly hidden = vscode.window.createTextEditorDecorationType({
		isWholeLine: true,
		backgroundColor: new vscode.ThemeColor("diffEditor.insertedLineBackground"),
		color: "transparent",
		opacity: "0",
		// the old text makes room for the draft that stands in its place
		textDecoration: "none; display: none",
	});
	private readonly draft = vscode.window.createTextEditorDecorationType({ isWholeLine: true });
	private shownIn: vscode.TextEditor | undefined;

	/** Draws one step over the lines of its range. */
	show(editor: vscode.TextEditor, canvas: Canvas): void {
		this.shownIn = editor;
		const first = canvas.range.start.line;
		const last = Math.min(canvas.range.end.line, editor.document.lineCount - 1);
		const lines = canvasLines(canvas.slots);
		if (lines.at(-1)?.length === 0) {
			lines.pop();
		}
		// what does not find a line of its own stands behind the last one
		const room = last - first + 1;
		const drawn = lines.slice(0, room);
		for (const line of lines.slice(room)) {
			drawn.at(-1)?.push({ text: " ⏎ ", state: "masked" }, ...line);
		}
		const open = canvas.slots.filter((slot) => slot.state === "masked").length;
		drawn[0]?.push({ text: `    ${canvas.forwards} passes, ${open} open`, state: "masked" });
		const hidden: vscode.Range[] = [];
		const options: vscode.DecorationOptions[] = [];
		for (let row = first; row <= last; row++) {
			const length = editor.document.lineAt(row).text.length;
			hidden.push(new vscode.Range(row, 0, row, length));
			// Pieces at the same place come out in any order, so each has a column of the hidden text to itself. A line
			// that is too short for that has its last pieces in one colour.
			const pieces = drawn[row - first] ?? [];
			for (const piece of pieces.splice(length + 1)) {
				const end = pieces.at(-1);
				if (end) {
					end.text += piece.text;
				}
			}
			pieces.forEach((piece, column) => {
				const after = { contentText: asContent(piece.text), color: new vscode.ThemeColor(COLOURS[piece.state]) };
				options.push({ range: new vscode.Range(row, column, row, column), renderOptions: { after } });
			});
		}
		editor.setDecorations(this.hidden, hidden);
		editor.setDecorations(this.draft, options);
	}

	clear(): void {
		this.shownIn?.setDecorations(this.hidden, []);
		this.shownIn?.setDecorations(this.draft, []);
		this.shownIn = undefined;
	}

	dispose(): void {
		this.clear();
		this.hidden.dispose();
		this.draft.dispose();
	}
}

/** Text as it can stand in a decoration: there, blanks at the ends would vanish. */
export function asContent(text: string): string {
	return text.replaceAll("\t", "    ").replaceAll(" ", "\u00a0");
}
