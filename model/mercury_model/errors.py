"""The error tree of the model.

ModelError
├── FetchError          the weights cannot be had: no network, wrong hash, disk full
├── CheckpointError     the files are there and are not what they should be
└── RequestError        the request cannot be served (unknown policy, empty window)

Each message is one line that says what to do. This module knows nothing about where messages are shown.
"""


class ModelError(Exception):
    """Base of everything mercury_model raises on purpose."""


class FetchError(ModelError):
    """The weights could not be fetched, verified or stored."""


class CheckpointError(ModelError):
    """A checkpoint is incomplete, misshapen, corrupt or of an unknown family."""


class RequestError(ModelError):
    """The request itself is at fault."""
