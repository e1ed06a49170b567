"""Writes the settings of the server into package.json: `python editors/vscode/scripts/manifest.py [--check]`.

They come from the classes of mercury_lsp/settings.py; the extension's own settings stay as they are. --check changes
nothing and ends with 1 if package.json is not current.
"""

import json
import sys
from pathlib import Path

MANIFEST = Path(__file__).resolve().parents[1] / "package.json"
OWN = ("mercury.path", "mercury.interpreter", "mercury.nextEdit.enabled", "mercury.trace.server")
NOT_OFFERED = ("mercury.canvas",)  # the extension asks for it itself, when it starts the server


def current() -> str:
    """The text that package.json should have."""
    from mercury_lsp.settings_docs import vscode_properties

    manifest = json.loads(MANIFEST.read_text("utf-8"))
    properties = manifest["contributes"]["configuration"]["properties"]
    own = {name: properties[name] for name in OWN}
    server = {name: p | {"scope": scope(name)} for name, p in vscode_properties().items() if name not in NOT_OFFERED}
    manifest["contributes"]["configuration"]["properties"] = own | server
    return json.dumps(manifest, indent="\t", ensure_ascii=False) + "\n"


def scope(name: str) -> str:
    """One model serves a window; where text may be sent is the user's to say, never a workspace's; the rest may differ
    from folder to folder."""
    if name.startswith("mercury.remote."):
        return "machine"
    return "window" if name.startswith("mercury.model.") else "resource"


def main(arguments: list[str]) -> int:
    text = current()
    if "--check" in arguments:
        if text != MANIFEST.read_text("utf-8"):
            print("package.json is not current: run python editors/vscode/scripts/manifest.py")
            return 1
        return 0
    MANIFEST.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
