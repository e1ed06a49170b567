"""The weights: which models there are, fetch them, say where they lie, verify their hashes.

The weights are kept in the platform's cache folder, or in MERCURY_LSP_CACHE. MERCURY_LSP_GGUF names a copy of
the published file to use instead of a download.
"""

import argparse
import sys

from mercury_lsp.cli.progress import progress
from mercury_lsp.errors import FailureError, UsageError
from mercury_model import store


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="{list,pull,path,verify}")
    actions.add_parser("list", help="the models, what of them is on disk, and where")
    for name, text in (
        ("pull", "fetch and convert; what is there already is not fetched again"),
        ("path", "print where the weights lie; exit status 1 if they are not there"),
        ("verify", "hash every file that is there; exit status 1 if one is wrong or missing"),
    ):
        action = actions.add_parser(name, help=text)
        action.add_argument("name", nargs="?", default=store.DEFAULT, help=f"default: {store.DEFAULT}")
        if name != "verify":
            action.add_argument("--dtype", choices=("auto", *store.DTYPES), default="auto", help=argparse.SUPPRESS)
        if name == "pull":
            action.add_argument("--quiet", action="store_true", help="no progress")


def run(args: argparse.Namespace) -> int:
    if args.action != "list" and args.name not in store.MODELS:
        raise UsageError(f"unknown model {args.name!r}: the models are {', '.join(store.MODELS)}")
    return ACTIONS[args.action](args)


def list_models(args: argparse.Namespace) -> int:
    for name, published in store.MODELS.items():
        print(f"{name}  ({published.file}, {published.size / 1e6:.0f} MB to fetch)")
        print(f"  folder: {store.folder(name)}")
        for path in store.files(name):
            print(f"  {path.stat().st_size / 1e6:7.0f} MB  {path.name}")
        there = [dtype for dtype in store.DTYPES if store.ready(name, dtype)]
        print(f"  ready: {', '.join(there)}" if there else "  not there yet: mercury-lsp model pull")
    return 0


def pull(args: argparse.Namespace) -> int:
    with progress(quiet=args.quiet) as report:
        paths = store.ensure(args.name, dtype_of(args), report)
    if not args.quiet:
        print(f"{args.name} is ready: {paths.weights}", file=sys.stderr)
    return 0


def path(args: argparse.Namespace) -> int:
    paths = store.ready(args.name, dtype_of(args))
    if paths is None:
        raise FailureError(f"{args.name} is not in {store.folder(args.name)}: run mercury-lsp model pull")
    print(paths.weights)
    return 0


def verify(args: argparse.Namespace) -> int:
    with progress() as report:
        checks = store.verify(args.name, report)
    for check in checks:
        print(f"{'ok ' if check.ok else 'BAD'}  {check.found}  {check.path}")
    bad = [check for check in checks if not check.ok]
    if bad:
        wrong = "; ".join(f"{check.path.name} is {check.found}, expected {check.expected}" for check in bad)
        raise FailureError(f"{wrong}: delete the file and run mercury-lsp model pull")
    if not any(store.ready(args.name, dtype) for dtype in store.DTYPES):
        raise FailureError(f"{args.name} is not complete in {store.folder(args.name)}: run mercury-lsp model pull")
    return 0


def dtype_of(args: argparse.Namespace) -> store.Dtype:
    """The format that the model will be loaded in here: bf16 with a GPU, else int8."""
    if args.dtype != "auto":
        return args.dtype
    import torch

    return "bf16" if torch.cuda.is_available() else "int8"


ACTIONS = {"list": list_models, "pull": pull, "path": path, "verify": verify}
