"""Serve the Mercury-compatible HTTP API and the playground page.

Without keys it listens on the loopback interface only. Keys come from a file, one per line, or from the environment
variable MERCURY_API_KEYS, separated by commas.
"""

import argparse
import contextlib
import os
import socket
from collections.abc import Generator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mercury_lsp import loading
from mercury_lsp.cli.complete import positive
from mercury_lsp.cli.serve import LEVELS, configure_logging
from mercury_lsp.errors import FailureError, UsageError
from mercury_lsp.settings import ModelSettings, Settings

if TYPE_CHECKING:
    from mercury_lsp.api.runs import Runs

KEYS = "MERCURY_API_KEYS"
CACHE_MEGABYTES = 256
"""For the caches of eight requests at once."""
LOOPBACK = ("localhost", "127.0.0.1", "::1")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    model = Settings().model
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8089, help="0 takes a free one (default: %(default)s)")
    parser.add_argument("--model", default=model.name, help="which model (default: %(default)s)")
    parser.add_argument("--device", default=model.device, help="auto, cpu, cuda or cuda:N (default: %(default)s)")
    parser.add_argument("--keys", type=Path, metavar="FILE", help="API keys, one per line")
    parser.add_argument("--anonymous", action="store_true", help="allow requests without a key from other machines")
    parser.add_argument(
        "--cors", action="append", default=[], metavar="ORIGIN", help="web origin that may call the API; may repeat"
    )
    parser.add_argument(
        "--context", type=positive, default=8192, metavar="N", help="tokens of prompt and answer (default: %(default)s)"
    )
    parser.add_argument(
        "--parallel", type=positive, default=8, metavar="N", help="requests that run at once (default: %(default)s)"
    )
    parser.add_argument(
        "--queue", type=positive, default=2048, metavar="N", help="requests that may wait (default: %(default)s)"
    )
    parser.add_argument(
        "--replicas", type=positive, metavar="N", help="denoisers on a Ray cluster, one per GPU (extra `cluster`)"
    )
    parser.add_argument(
        "--address", metavar="ADDRESS", help="the Ray cluster, `auto` or HOST:PORT (default: one on this machine)"
    )
    parser.add_argument("--log-level", choices=LEVELS, default="warning", help="how much is logged")
    parser.add_argument("--log-file", metavar="FILE", type=Path, help="log into a file instead of stderr")


def run(args: argparse.Namespace) -> int:
    """Serves until interrupted. Raises UsageError for an open door, FailureError where it cannot listen."""
    configure_logging(args.log_level, args.log_file)
    keys = read_keys(args.keys)
    local = args.host in LOOPBACK
    if not local and not keys and not args.anonymous:
        raise UsageError(
            f"{args.host} can be reached from other machines: give --keys FILE (or set {KEYS}), or allow everybody "
            "with --anonymous"
        )
    try:
        import uvicorn  # late, and optional: the language server needs none of it

        from mercury_lsp.api.app import Options, build
    except ImportError as error:
        raise UsageError(f"{error.name} is not installed: run `pip install 'mercury-lsp[api]'`") from None
    options = Options(
        name=Path(args.model).name,
        n_context=args.context,
        keys=keys,
        hosts=LOOPBACK if local else (),
        origins=tuple(args.cors),
    )
    with listen(args.host, args.port) as listening:
        host, port = listening.getsockname()[:2]
        address = f"[{host}]" if ":" in host else host
        with runs_of(args, f"mercury-lsp-{socket.gethostname()}-{port}") as runs:
            print(f"mercury-lsp api on http://{address}:{port} (playground at /, API at /v1)", flush=True)
            app = build(runs, options)
            config = uvicorn.Config(
                app, log_config=None, access_log=False, timeout_graceful_shutdown=5, server_header=False
            )
            uvicorn.Server(config).run(sockets=[listening])
    return 0


@contextlib.contextmanager
def runs_of(args: argparse.Namespace, name: str) -> Generator["Runs"]:
    """Who runs the requests: this process, or with --replicas or --address denoisers on a Ray cluster, as `name`."""
    model = ModelSettings(name=args.model, device=args.device, cache_megabytes=CACHE_MEGABYTES)
    load = partial(loading.load_infiller, Settings(model=model))
    if args.replicas is None and args.address is None:
        from mercury_lsp.api.pool import Pool

        yield Pool(load, n_running=args.parallel, n_waiting=args.queue)
        return
    try:
        from mercury_lsp.api import ray_serve
    except ImportError as error:
        raise UsageError(f"{error.name} is not installed: run `pip install 'mercury-lsp[cluster]'`") from None
    n_replicas = args.replicas or 1
    where = ray_serve.connect(args.address)
    try:
        print(f"mercury-lsp api: starting {n_replicas} of {args.model} on {where}", flush=True)
        yield ray_serve.deploy(load, n_replicas=n_replicas, n_running=args.parallel, n_waiting=args.queue, name=name)
    finally:
        ray_serve.leave()


def read_keys(file: Path | None) -> tuple[str, ...]:
    """Raises UsageError for a file that cannot be read or holds no key."""
    lines = os.environ.get(KEYS, "").split(",")
    if file is not None:
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read the keys in {file}: {error}") from None
    keys = tuple(dict.fromkeys(key.strip() for key in lines if key.strip() and not key.startswith("#")))
    if file is not None and not keys:
        raise UsageError(f"{file} holds no key: write one per line")
    return keys


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, made here so that a taken port is one clear line."""
    if not 0 <= port <= 65535:
        raise UsageError(f"--port takes 0 to 65535, not {port}")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise FailureError(f"cannot listen on {host}:{port} ({error.strerror}): choose another --port") from None
