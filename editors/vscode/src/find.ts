// Where the server's program is. Knows nothing about VS Code: what it looks at is given to it, so that a test can.

import { posix, win32 } from "node:path";

export interface Places {
	/** The setting `mercury.path`; of the user alone, where the workspace is not trusted. */
	path: string;
	/** The setting `mercury.interpreter`, or the interpreter that the Python extension has selected; likewise. */
	interpreter: string;
	/** The environment that this extension makes. */
	environment: string;
	/** The variable PATH. */
	searchPath: string;
	windows: boolean;
	exists: (file: string) => boolean;
}

export interface Found {
	program: string;
	/** For people: why this one. */
	because: string;
}

/** The folder of an environment's programs. */
export function programs(environment: string, windows: boolean): string {
	const { join } = windows ? win32 : posix;
	return join(environment, windows ? "Scripts" : "bin");
}

/** The server's program, or undefined where there is none. */
export function findServer(places: Places): Found | undefined {
	const { delimiter, dirname, isAbsolute, join } = places.windows ? win32 : posix;
	const name = places.windows ? "mercury-lsp.exe" : "mercury-lsp";
	const candidates: Found[] = [];
	if (places.path) {
		candidates.push({ program: places.path, because: "setting mercury.path" });
	}
	if (places.interpreter) {
		const program = join(dirname(places.interpreter), name);
		candidates.push({ program, because: `beside the interpreter ${places.interpreter}` });
	}
	const own = join(programs(places.environment, places.windows), name);
	candidates.push({ program: own, because: "the extension's own environment" });
	// a relative folder on PATH would be one of the workspace's
	for (const folder of places.searchPath.split(delimiter).filter((entry) => isAbsolute(entry))) {
		candidates.push({ program: join(folder, name), because: "PATH" });
	}
	return candidates.find((candidate) => places.exists(candidate.program));
}
