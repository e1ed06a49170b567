"""Loads the model that the settings name. It exists so that nothing imports torch before it is called."""

from collections.abc import Callable

from mercury_lsp.settings import Settings
from mercury_model.draft import Infiller


def load_infiller(settings: Settings, report: Callable[[str, float], None]) -> Infiller:
    """The Infiller of `settings.model`; report gets (what is done, fraction). Raises ModelError."""
    from mercury_model import load  # not at the top: it imports torch

    return load(settings.model.name, report=report, device=settings.model.device)
