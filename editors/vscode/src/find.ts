// Where the server's program is. Knows nothing about VS Code: what it looks at is given to it, so that a test can.

import { delimiter, dirname, join } from "node:path";

export interface Places {
	/** The setting `mercury.path`. */
	path: string;
	/** The setting `mercury.interpreter`, or the interpreter that the Python extension has selected. */
	interpreter: string;
	/** The environment that this extension makes. */
	environment: string;
	/** The variable PATH. */
	searchPath: string;
	trusted: boolean;
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
	return join(environment, windows ? "Scripts" : "bin");
}

/** The server's program, or undefined where there is none. A workspace that is not trusted names none. */
export function findServer(places: Places): Found | undefined {
	const name = places.windows ? "mercury-lsp.exe" : "mercury-lsp";
	const candidates: Found[] = [];
	if (places.trusted && places.path) {
		candidates.push({ program: places.path, because: "setting mercury.path" });
	}
	if (places.trusted && places.interpreter) {
		const program = join(dirname(places.interpreter), name);
		candidates.push({ program, because: `beside the interpreter ${places.interpreter}` });
	}
	const own = join(programs(places.environment, places.windows), name);
	candidates.push({ program: own, because: "the extension's own environment" });
	for (const folder of places.searchPath.split(delimiter).filter(Boolean)) {
		candidates.push({ program: join(folder, name), because: "PATH" });
	}
	return candidates.find((candidate) => places.exists(candidate.program));
}
