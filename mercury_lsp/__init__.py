"""The language server: documents, regions, edits, the engine and the protocol.

Importing it, or mercury_lsp.server, imports neither torch nor transformers.
"""

__version__ = "0.1.0"
