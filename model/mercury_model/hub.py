"""From a name to a folder with a published checkpoint: a path, or a repository of the model hub.

Only data is fetched, never code, and no code of a checkpoint is ever run. This module knows nothing about what is in
the files.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from mercury_model.errors import FetchError, RequestError

REPOSITORY = re.compile(r"(?P<repo>[\w.-]+/[\w.-]+)(@(?P<revision>[\w.-]+))?")
WANTED = ["*.safetensors", "*.safetensors.index.json", "*.json", "merges.txt"]


def checkpoint_folder(name: str, report: Callable[[str, float], None] | None = None) -> Path | None:
    """The folder of `name`: a path as it is, "org/name" or "org/name@revision" from the model hub, fetched if need be.

    None if the name is neither. RequestError for a path where there is no folder, FetchError if the hub cannot be had.
    """
    path = Path(name).expanduser()
    if path.is_dir():
        return path
    if path.is_absolute() or name.startswith(("~", ".")) or path.suffix in (".json", ".safetensors"):
        raise RequestError(f"model {name!r}: there is no such folder; give the folder that holds config.json")
    found = REPOSITORY.fullmatch(name)
    if found is None:
        return None
    if report is not None:
        report(f"fetching {name} from the model hub", 0.0)
    return _fetch(found["repo"], found["revision"])


def _fetch(repo: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return Path(snapshot_download(repo, revision=revision, allow_patterns=WANTED))
    except LocalEntryNotFoundError:
        why = "the model hub cannot be reached and the model is not on this machine"
    except (OSError, ValueError) as error:
        why = (str(error) or type(error).__name__).splitlines()[0]
    raise FetchError(f"model {repo!r}: {why}; download it elsewhere and give its folder as the model")
