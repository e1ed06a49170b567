"""Loads the model that the settings name. It exists so that nothing imports torch before it is called."""

from collections.abc import Callable

from mercury_lsp.settings import Settings
from mercury_model.draft import Infiller

ELSEWHERE = ("mercury:", "http://", "https://")
"""How names of remote denoisers begin."""


def load_infiller(settings: Settings, report: Callable[[str, float], None]) -> Infiller:
    """The Infiller of `settings.model`, here or elsewhere; report gets (what is done, fraction). Raises ModelError."""
    if settings.model.name.startswith(ELSEWHERE):
        from mercury_lsp.remote import load_remote  # not at the top: few need an HTTP client

        return load_remote(settings.model.name, settings.remote.consent)
    from mercury_model import load  # not at the top: it imports torch

    model = settings.model
    return load(model.name, report=report, device=model.device, cache_bytes=model.cache_megabytes << 20)
