"""`mercury-lsp`: picks the command, imports its module and no other, and turns errors into one line.

Each command is a module with `add_arguments(parser)` and `run(args) -> exit status`. This module knows nothing
about what the commands do; importing it imports neither torch nor the server.
"""

import argparse
import difflib
import importlib
import io
import os
import sys
import warnings
from collections.abc import Sequence
from typing import NoReturn

from mercury_lsp import __version__
from mercury_lsp.errors import MercuryError, UsageError
from mercury_model.errors import ModelError, RequestError

COMMANDS: dict[str, tuple[str, str]] = {
    "serve": ("mercury_lsp.cli.serve", "run the language server (what mercury-lsp alone does)"),
    "complete": ("mercury_lsp.cli.complete", "complete a file at a position"),
    "rewrite": ("mercury_lsp.cli.rewrite", "rewrite lines of a file, as a diff"),
    "fix": ("mercury_lsp.cli.fix", "repair syntax errors, as a diff"),
    "model": ("mercury_lsp.cli.model", "list, fetch, locate and verify the weights"),
    "eval": ("mercury_lsp.cli.evaluate", "measure the model on a benchmark"),
    "bench": ("mercury_lsp.cli.bench", "replay typing through a server process and measure its answers"),
    "api": ("mercury_lsp.cli.api", "serve the HTTP API (Mercury-compatible) and the playground page"),
    "doctor": ("mercury_lsp.cli.doctor", "say what is installed, what is wrong and what helps"),
}
"""Name -> module, one line of help. A row is added together with its module."""

USAGE = """\
usage: mercury-lsp [COMMAND] [OPTIONS]

A code-editing language server powered by a masked-diffusion language model.
Without a command it serves the language server protocol on stdin and stdout.

commands:
{commands}

mercury-lsp COMMAND --help says more about each.
mercury-lsp --version prints the version.
"""


class Parser(argparse.ArgumentParser):
    """Bad arguments are one line on stderr and exit status 2; no usage text in between."""

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(2)


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0; 2 for bad input; 1 for any other failure; 130 when interrupted."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without these characters must not stop the work
            stream.reconfigure(errors="backslashreplace")
    # torch announces the end of its eager quantised tensors; constraints.txt pins a release that has them
    warnings.filterwarnings("ignore", "torch.quantize_per_tensor", UserWarning)
    try:
        status = dispatch(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
        return status
    except SystemExit as end:  # argparse: --help or bad arguments
        return end.code if isinstance(end.code, int) else 1
    except MercuryError as error:
        return complain(error, error.exit_status)
    except ModelError as error:
        return complain(error, 2 if isinstance(error, RequestError) else 1)
    except KeyboardInterrupt:
        return complain("interrupted", 130)  # as shells have it: 128 and the signal
    except BrokenPipeError:
        # the reader (head, less) has seen enough; nothing may be flushed into the closed pipe at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return complain("the output was closed before all of it was written", 1)


def dispatch(arguments: list[str]) -> int:
    name, *rest = arguments or ["serve", "--stdio"]
    if name in ("-h", "--help", "help"):
        width = max(map(len, COMMANDS)) + 2
        lines = [f"  {command:<{width}}{text}" for command, (_, text) in COMMANDS.items()]
        print(USAGE.format(commands="\n".join(lines)), end="")
        return 0
    if name in ("-V", "--version"):
        print(f"mercury-lsp {__version__}")
        return 0
    if name.startswith("-"):  # editors start servers with a bare --stdio
        name, rest = "serve", arguments
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"; did you mean {near[0]}?" if near else f": the commands are {', '.join(COMMANDS)}"
        raise UsageError(f"unknown command {name!r}{hint}")
    module = importlib.import_module(COMMANDS[name][0])
    parser = Parser(prog=f"mercury-lsp {name}", description=module.__doc__, allow_abbrev=False)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    module.add_arguments(parser)
    return module.run(parser.parse_args(rest))


def complain(message: object, status: int) -> int:
    """One line on stderr, whatever the message holds."""
    print(f"mercury-lsp: {' '.join(str(message).split())}", file=sys.stderr)
    return status
