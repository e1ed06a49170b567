"""The error tree of the server and the command line.

MercuryError
├── UsageError     the user's input is at fault; exit status 2
└── FailureError   something else failed; exit status 1

Each message is one line that says what to do. This module knows nothing about LSP error codes.
"""


class MercuryError(Exception):
    """Base of everything mercury_lsp raises on purpose."""

    exit_status = 1


class UsageError(MercuryError):
    """Bad input: a file, position, setting or option."""

    exit_status = 2


class FailureError(MercuryError):
    """The work could not be done."""
