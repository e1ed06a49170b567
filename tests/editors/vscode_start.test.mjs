// How the extension starts in a workspace that nobody has trusted yet, with a server that never answers.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { open } from "./code_server.mjs";

const TRAP = "#!/bin/sh\ntouch FOLDER/trapped\n";
const FILES = {
	".vscode/settings.json":
		'{ "mercury.path": "FOLDER/project/trap", "mercury.interpreter": "FOLDER/project/bin/python" }',
	trap: TRAP,
	"bin/mercury-lsp": TRAP,
	"bin/python": TRAP,
	"plain.py": "",
};
/** Says that it was started, and then only listens. */
const deaf = (folder) => `#!/bin/sh\ntouch '${folder}/started'\nexec cat >/dev/null\n`;

let code;
before(async () => {
	code = await open(FILES, { server: deaf, onPath: true, trust: false });
});
after(() => code?.close());

test("programs that a workspace names are not run before it is trusted, the one on PATH is", async () => {
	await code.soon(() => existsSync(join(code.folder, "started")));
	assert.ok(!existsSync(join(code.folder, "trapped")));
	await code.page.getByText("Restricted Mode").first().waitFor();
});

test("one can type while the server has not answered yet", async () => {
	await code.at("plain.py");
	await code.type("answer = 42");
	await code.until("answer = 42");
	assert.ok(!existsSync(join(code.folder, "trapped")));
});
