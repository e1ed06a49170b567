"""`mercury-lsp serve`: the language server over stdio or TCP."""

import argparse
import gc
import logging
import sys
from pathlib import Path

from mercury_lsp.errors import FailureError, UsageError

LEVELS = ("debug", "info", "warning", "error")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stdio", action="store_true", help="speak over stdin and stdout (the default)")
    parser.add_argument("--tcp", metavar="HOST:PORT", help="wait for one client on a TCP port instead")
    parser.add_argument("--log-level", choices=LEVELS, default="warning", help="how much is logged")
    parser.add_argument("--log-file", metavar="FILE", type=Path, help="log into a file instead of stderr")


def run(args: argparse.Namespace) -> int:
    """Serves one client; returns 0 if it said goodbye before it left."""
    configure_logging(args.log_level, args.log_file)
    # collecting garbage among the thousands of classes of lsprotocol makes the start a tenth slower
    gc.disable()
    from mercury_lsp import server  # late: `mercury-lsp --help` needs none of it

    gc.freeze()
    gc.enable()
    if args.tcp is None:
        return server.serve_stdio(server.build_server())
    host, port = _address(args.tcp)
    try:
        return server.serve_tcp(server.build_server(), host, port)
    except OSError as error:
        raise FailureError(f"Cannot listen on {args.tcp} ({error.strerror}): choose another port.") from None


def configure_logging(level: str, file: Path | None = None) -> None:
    """Our own log at `level`; of pygls only what is wrong, as it would write every message with its text."""
    try:
        handler = logging.FileHandler(file, encoding="utf-8") if file else logging.StreamHandler(sys.stderr)
    except OSError as error:
        raise UsageError(f"Cannot write the log file {file} ({error.strerror}): choose another.") from None
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    handler.addFilter(withhold_text)
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for name in ("mercury_lsp", "mercury_model", "mercury_kernels"):
        logging.getLogger(name).setLevel(level.upper())


def withhold_text(record: logging.LogRecord) -> bool:
    """Takes parameters of messages and texts of exceptions out of pygls' records: they hold the user's code.

    Cancelling what has just been answered is every editor's habit, and not worth a line each time.
    """
    if record.name.startswith("pygls"):
        if str(record.msg).startswith("Cancel notification for unknown"):
            return False
        if isinstance(record.args, tuple):
            record.args = tuple(_harmless(argument) for argument in record.args)
        if record.exc_info and record.exc_info[0] is not None:
            record.msg = f"{record.msg} ({record.exc_info[0].__name__})"
        record.exc_info = record.exc_text = None
    return True


def _harmless(argument: object) -> object:
    if isinstance(argument, int) or (isinstance(argument, str) and len(argument) <= 60):
        return argument
    return f"<{type(argument).__name__}>"


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"--tcp takes HOST:PORT, for example 127.0.0.1:7878, not {text}.")
    return host.strip("[]") or "127.0.0.1", int(port)
