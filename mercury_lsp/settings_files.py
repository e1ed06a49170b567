"""The settings file of a folder, `.mercury.toml`. It knows nothing about single options or who wants them."""

import tomllib
from pathlib import Path

from mercury_lsp.settings import Source

FILE_NAME = ".mercury.toml"
_MAX_BYTES = 200_000


def folder_source(root: Path) -> tuple[Source | None, str]:
    """What `.mercury.toml` of a folder holds, and one line about it if it cannot be read.

    (None, "") where there is no such file.
    """
    file = root / FILE_NAME
    try:
        if not file.is_file():
            return None, ""
        if file.stat().st_size > _MAX_BYTES:
            return None, f"{file}: too large for a settings file; it is ignored."
        return Source(str(file), tomllib.loads(file.read_text("utf-8")), project=True), ""
    except tomllib.TOMLDecodeError as error:
        return None, f"{file}: not valid TOML, it is ignored: {error}"
    except (OSError, UnicodeDecodeError) as error:
        return None, f"{file}: cannot be read, it is ignored ({type(error).__name__})."
