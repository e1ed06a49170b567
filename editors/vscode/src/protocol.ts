// What the server of this project says beyond the protocol of language servers.

import type * as lsp from "vscode-languageclient/node";

export interface Status {
	kind: "Normal" | "Warning" | "Error" | "Inactive";
	message: string;
	busy: boolean;
	model: string;
	device: string;
}

export interface Slot {
	text: string;
	state: "masked" | "tentative" | "settled";
	confidence: number;
	revised: boolean;
}

/** One step's draft of a command that runs. */
export interface Canvas {
	uri: string;
	version: number;
	range: lsp.Range;
	slots: Slot[];
	forwards: number;
	done: boolean;
}

export interface Changed {
	applied: boolean;
	edit?: lsp.WorkspaceEdit;
}

export interface NextEdits {
	edits: {
		/** Names the edit when it is turned down. */
		id?: string;
		text: string;
		range: lsp.Range;
		textDocument: { uri: string; version: number };
		command?: lsp.Command;
	}[];
}

export const STATUS = "mercury/status";
export const CANVAS = "mercury/canvas";
export const NEXT_EDIT = "textDocument/copilotInlineEdit";
/** With an `item` it was a next edit, with a `position` ghost text. */
export const REJECTED = "mercury/rejected";

/** How a masked slot is drawn. */
export const MASK = "░";
