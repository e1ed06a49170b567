// As much of VS Code's interface as the sources use before a server runs, recorded in `state`. Tests change the state.

export const state = {};

export function reset() {
	Object.assign(state, {
		trusted: true,
		settings: {}, // name -> {global, workspace}
		python: undefined, // what the Python extension answers
		answers: [], // what the user picks, in turn
		said: [], // messages that were shown
		progress: [],
		cancels: "", // the progress at which the user cancels
		contexts: {},
		commands: {},
		executed: [],
		clients: [],
		start: async () => {},
		status: {},
	});
}
reset();

const nothing = { dispose() {} };
const event = () => nothing;

class Listeners {
	listeners = [];
	add = (listener) => {
		this.listeners.push(listener);
		return nothing;
	};
	fire() {
		for (const one of this.listeners) one();
	}
}

function message(text, ...choices) {
	state.said.push({ text, choices });
	return Promise.resolve(state.answers.shift());
}

export const workspace = {
	get isTrusted() {
		return state.trusted;
	},
	workspaceFolders: [{ uri: "folder" }],
	getConfiguration: () => ({
		// where it is not trusted, VS Code leaves the workspace's value of a restricted setting out by itself: not here
		get: (name, otherwise) => state.settings[name]?.workspace ?? state.settings[name]?.global ?? otherwise,
		inspect: (name) => ({ globalValue: state.settings[name]?.global, workspaceValue: state.settings[name]?.workspace }),
	}),
	onDidChangeConfiguration: event,
	onDidGrantWorkspaceTrust: event,
	onDidChangeTextDocument: event,
	registerTextDocumentContentProvider: event,
};

export const window = {
	showWarningMessage: message,
	showErrorMessage: message,
	createOutputChannel: () => ({ info() {}, warn() {}, error() {}, show() {}, dispose() {} }),
	createTextEditorDecorationType: () => nothing,
	onDidChangeTextEditorSelection: event,
	onDidChangeActiveTextEditor: event,
	tabGroups: { onDidChangeTabs: event, all: [] },
	async withProgress(_, work) {
		const cancelled = new Listeners();
		const token = { isCancellationRequested: false, onCancellationRequested: cancelled.add };
		const report = ({ message: text }) => {
			state.progress.push(text);
			if (state.cancels && text.includes(state.cancels)) {
				setImmediate(() => {
					token.isCancellationRequested = true;
					cancelled.fire();
				});
			}
		};
		return work({ report }, token);
	},
};

export const commands = {
	registerCommand(name, run) {
		state.commands[name] = run;
		return nothing;
	},
	async executeCommand(name, ...given) {
		state.executed.push([name, ...given]);
		if (name === "setContext") state.contexts[given[0]] = given[1];
	},
};

export const languages = { createLanguageStatusItem: () => Object.assign(state.status, nothing) };
export const extensions = {
	getExtension: () =>
		state.python && {
			activate: async () => ({ environments: { getActiveEnvironmentPath: () => ({ path: state.python() }) } }),
		},
};

export class CancellationError extends Error {}
export class ThemeColor {}
export const Uri = { parse: (text) => text };
export const ProgressLocation = { Notification: 15 };
export const LanguageStatusSeverity = { Information: 0, Warning: 1, Error: 2 };
export const OverviewRulerLane = { Right: 4 };

/** In the place of vscode-languageclient's. */
export class LanguageClient {
	constructor(_id, _name, server) {
		this.server = server;
		state.clients.push(this);
	}
	start() {
		return state.start();
	}
	isRunning = () => false;
	onNotification = event;
	setTrace = async () => {};
	dispose = async () => {};
}
export const Trace = { fromString: () => 0 };
