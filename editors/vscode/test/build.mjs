// The sources with vscode.mjs in the place of VS Code and of the language client, as one module.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";

const here = import.meta.dirname;

/** What `source`, a TypeScript module like `export * from "../src/find"`, exports. */
export async function bundled(source) {
	const folder = mkdtempSync(join(tmpdir(), "mercury-vscode-"));
	try {
		const outfile = join(folder, "bundle.mjs");
		const fake = join(here, "vscode.mjs");
		await build({
			stdin: { contents: source, resolveDir: here, loader: "ts" },
			outfile,
			bundle: true,
			platform: "node",
			format: "esm",
			alias: { vscode: fake, "vscode-languageclient/node": fake },
			logLevel: "error",
		});
		return await import(pathToFileURL(outfile).href);
	} finally {
		rmSync(folder, { recursive: true });
	}
}
