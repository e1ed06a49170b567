// The language status item: model and device, busy, paused, a problem with its remedy.

import * as vscode from "vscode";
import type { Status } from "./protocol";

export class StatusItem implements vscode.Disposable {
	private readonly item: vscode.LanguageStatusItem;
	private status: Status | undefined;

	constructor() {
		this.item = vscode.languages.createLanguageStatusItem("mercury", [{ scheme: "file" }, { scheme: "untitled" }]);
		this.item.name = "Mercury";
		this.item.command = { command: "mercury.editor.menu", title: "Menu" };
		this.show("not running", "", vscode.LanguageStatusSeverity.Warning, false);
	}

	get isPaused(): boolean {
		return this.status?.kind === "Inactive";
	}

	/** What the server says. */
	update(status: Status): void {
		this.status = status;
		const severity = {
			Normal: vscode.LanguageStatusSeverity.Information,
			Inactive: vscode.LanguageStatusSeverity.Information,
			Warning: vscode.LanguageStatusSeverity.Warning,
			Error: vscode.LanguageStatusSeverity.Error,
		}[status.kind];
		const where = [status.model, status.device].filter(Boolean).join(" · ");
		const word = { Normal: where, Inactive: "inactive", Warning: where, Error: "problem" }[status.kind];
		this.show(word, status.message, severity, status.busy && status.kind === "Normal");
	}

	/** A state that the server cannot tell, because it is not there. */
	missing(text: string): void {
		this.status = undefined;
		this.show("no server", text, vscode.LanguageStatusSeverity.Error, false);
	}

	private show(word: string, detail: string, severity: vscode.LanguageStatusSeverity, busy: boolean): void {
		this.item.text = `Mercury: ${word}`;
		this.item.detail = detail;
		this.item.severity = severity;
		this.item.busy = busy;
	}

	dispose(): void {
		this.item.dispose();
	}
}
