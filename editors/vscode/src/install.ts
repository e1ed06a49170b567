// Makes a Python environment for the server and installs it there, with progress; cancelling leaves nothing behind.

import { spawn } from "node:child_process";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import * as vscode from "vscode";
import { programs } from "./find";

const LEAST_PYTHON = "3.11";
const PACKAGE = "mercury-lsp";

/** Runs a program to its end; its output goes to the log. */
function run(
	log: vscode.LogOutputChannel,
	token: vscode.CancellationToken,
	program: string,
	...words: string[]
): Promise<void> {
	return new Promise((resolve, reject) => {
		log.info(`${program} ${words.join(" ")}`);
		const child = spawn(program, words, { stdio: ["ignore", "pipe", "pipe"] });
		const stopping = token.onCancellationRequested(() => child.kill());
		let last = "";
		const take = (data: Buffer) => {
			last = data.toString().trim() || last;
			log.info(data.toString().trimEnd());
		};
		child.stdout.on("data", take);
		child.stderr.on("data", take);
		child.on("error", (error) => {
			stopping.dispose();
			reject(error);
		});
		child.on("close", (code) => {
			stopping.dispose();
			if (token.isCancellationRequested) {
				reject(new vscode.CancellationError());
			} else if (code === 0) {
				resolve();
			} else {
				reject(new Error(last.split("\n").at(-1) || `${program} ended with ${code}`));
			}
		});
	});
}

/** Installs the server into `environment`. Returns whether it is there now; says itself why not. */
export async function install(
	environment: string,
	interpreter: string,
	log: vscode.LogOutputChannel,
): Promise<boolean> {
	const windows = process.platform === "win32";
	const python = interpreter || (windows ? "python" : "python3");
	const own = join(programs(environment, windows), windows ? "python.exe" : "python");
	const options = { location: vscode.ProgressLocation.Notification, title: "Mercury", cancellable: true };
	try {
		await vscode.window.withProgress(options, async (progress, token) => {
			progress.report({ message: "making a Python environment" });
			const check = `import sys; sys.exit("Python ${LEAST_PYTHON} or newer is needed") if sys.version_info < (${LEAST_PYTHON.replace(".", ", ")}) else None`;
			await run(log, token, python, "-c", check);
			await run(log, token, python, "-m", "venv", "--clear", environment);
			progress.report({ message: "installing the server (a few hundred megabytes)" });
			await run(log, token, own, "-m", "pip", "install", "--disable-pip-version-check", PACKAGE);
			progress.report({ message: "getting the model (0.5 GB)" });
			await run(log, token, join(programs(environment, windows), PACKAGE), "model", "pull");
		});
		return true;
	} catch (error) {
		await rm(environment, { recursive: true, force: true });
		if (!(error instanceof vscode.CancellationError)) {
			const text = error instanceof Error ? error.message : String(error);
			void showProblem(`The server could not be installed: ${text}`, log);
		}
		return false;
	}
}

/** An error message that offers the log. */
export async function showProblem(text: string, log: vscode.LogOutputChannel): Promise<void> {
	if ((await vscode.window.showErrorMessage(`Mercury: ${text}`, "Show Log")) === "Show Log") {
		log.show();
	}
}
