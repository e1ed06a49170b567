"""The models this server answers for: the one it has loaded, under its own name and Mercury's."""

import time
from typing import Any

from mercury_lsp.api import failures

ALIASES = {
    "chat": ("mercury-2", "mercury", "mercury-coder", "mercury-coder-small", "mercury-small"),
    "fim": ("mercury-edit-2", "mercury-edit", "mercury-coder", "mercury-coder-small"),
    "edit": ("mercury-edit-2", "mercury-edit", "mercury-coder", "mercury-coder-small"),
}
"""Endpoint -> names that the published API has for it, all answered by the loaded model."""

ENDPOINTS = {
    "chat": ("chat.completions",),
    "fim": ("fim.completions",),
    "edit": ("edit.completions", "apply.completions"),
}
SAMPLING = ("temperature", "top_p", "top_k", "stop", "seed", "max_tokens")
FEATURES = ("streaming", "diffusing", "tools", "json_mode", "structured_outputs")
STARTED = int(time.time())


def check(name: str, own: str) -> None:
    """Raises ApiError for a name that is neither the model's own nor one of Mercury's."""
    if name != own and not name.split("/")[-1].startswith("mercury"):
        raise failures.unknown_model(name, own)


def models(own: str, n_context: int, endpoint: str | None = None) -> dict[str, Any]:
    """The list of all models, or of those of one endpoint ("chat", "fim", "edit")."""
    groups = ALIASES if endpoint is None else {endpoint: ALIASES[endpoint]}
    names = dict.fromkeys([own, *(name for group in groups.values() for name in group)])
    return {"object": "list", "data": [_model(name, own, n_context) for name in names]}


def _model(name: str, own: str, n_context: int) -> dict[str, Any]:
    able = [kind for kind in ENDPOINTS if name == own or name in ALIASES[kind]]
    return {
        "id": name,
        "object": "model",
        "owned_by": "mercury-lsp",
        "created": STARTED,
        "name": name,
        "description": f"{own}, a masked-diffusion language model on this machine",
        "context_length": n_context,
        "max_output_length": n_context,
        "input_modalities": ["text"],
        "output_modalities": ["text"],
        "pricing": {"prompt": "0", "completion": "0", "image": "0", "request": "0", "input_cache_read": "0"},
        "supported_endpoints": [endpoint for kind in able for endpoint in ENDPOINTS[kind]],
        "supported_features": list(FEATURES),
        "supported_sampling_parameters": list(SAMPLING),
    }
