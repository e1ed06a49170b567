// Draws a draft in the place of the lines that it would replace. The text of the document is not touched.

import * as vscode from "vscode";
import { type Canvas, MASK, type Slot } from "./protocol";

/** The canvas as lines of text, masked slots drawn as such. The first has the indentation that the code has. */
export function canvasLines(slots: readonly Slot[], indentation: string): string[] {
	const drawn = slots.map((slot) => (slot.state === "masked" ? MASK : slot.text));
	return (indentation + drawn.join("").replace(/^[ \t]+/, "")).split("\n");
}

export class CanvasView implements vscode.Disposable {
	private readonly hidden = vscode.window.createTextEditorDecorationType({
		isWholeLine: true,
		backgroundColor: new vscode.ThemeColor("diffEditor.insertedLineBackground"),
		color: "transparent",
		opacity: "0",
		// the old text makes room for the draft that stands in its place
		textDecoration: "none; display: none",
	});
	private readonly draft = vscode.window.createTextEditorDecorationType({});
	private shownIn: vscode.TextEditor | undefined;

	/** Draws one step over the lines of its range. */
	show(editor: vscode.TextEditor, canvas: Canvas): void {
		this.shownIn = editor;
		const first = canvas.range.start.line;
		const last = Math.min(canvas.range.end.line, editor.document.lineCount - 1);
		const indentation = /^\s*/.exec(editor.document.lineAt(first).text)?.[0] ?? "";
		const lines = canvasLines(canvas.slots, indentation);
		if (lines.at(-1) === "") {
			lines.pop();
		}
		const room = last - first + 1;
		const drawn = lines.slice(0, room);
		if (lines.length > room) {
			// what does not find a line of its own stands behind the last one
			drawn.push([drawn.pop(), ...lines.slice(room)].join(" ⏎ "));
		}
		const open = canvas.slots.filter((slot) => slot.state === "masked").length;
		const hidden: vscode.Range[] = [];
		const options: vscode.DecorationOptions[] = [];
		for (let row = first; row <= last; row++) {
			const length = editor.document.lineAt(row).text.length;
			const told = row === first ? `    ${canvas.forwards} passes, ${open} open` : "";
			// one piece of text for a line: VS Code gives several at the same place no order
			const contentText = asContent((drawn[row - first] ?? "") + told);
			const after = { contentText, color: new vscode.ThemeColor("editor.foreground") };
			hidden.push(new vscode.Range(row, 0, row, length));
			options.push({ range: new vscode.Range(row, length, row, length), renderOptions: { after } });
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
