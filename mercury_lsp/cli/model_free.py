"""The language server with a model that answers at once: `python -m mercury_lsp.cli.model_free`.

What a key costs here is what the server costs. The text it suggests means nothing.
"""

import re
import sys
from collections.abc import Callable, Iterator

from mercury_lsp.server import build_server, serve_stdio
from mercury_lsp.settings import Settings
from mercury_model.draft import Draft, ModelInfo, Request

TEXT = "value"


class ModelFree:
    """An Infiller without a model; its tokens are words and single other characters."""

    info = ModelInfo(name="none", device="cpu", kind="block", context_tokens=1024)

    def count_tokens(self, text: str, /) -> int:
        return len(re.findall(r"\w+|\W", text))

    def __call__(self, request: Request, /) -> Iterator[Draft]:
        yield Draft(TEXT, settled=len(TEXT), confidence=1.0, n_tokens=1, forwards=1.0, done=True, ended="end")


def load(settings: Settings, report: Callable[[str, float], None]) -> ModelFree:
    """In the place of mercury_lsp.loading.load_infiller."""
    return ModelFree()


if __name__ == "__main__":
    sys.exit(serve_stdio(build_server(load)))
