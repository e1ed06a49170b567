// Bundles src/extension.ts into dist/extension.js; --production minifies and refuses a bundle over 1.5 MB.
import { statSync } from "node:fs";
import { build } from "esbuild";

const production = process.argv.includes("--production");
const MOST_BYTES = 1.5 * 1024 * 1024;

await build({
	entryPoints: ["src/extension.ts"],
	outfile: "dist/extension.js",
	bundle: true,
	platform: "node",
	format: "cjs",
	target: "node20",
	external: ["vscode"],
	minify: production,
	sourcemap: !production,
	logLevel: "warning",
});

const { size } = statSync("dist/extension.js");
if (production && size > MOST_BYTES) {
	throw new Error(`dist/extension.js has ${size} bytes, more than ${MOST_BYTES}`);
}
