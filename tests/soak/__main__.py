"""`python -m tests.soak mixed --requests 100000` and `python -m tests.soak typing --minutes 60`.

Samples of the server process are printed as they are taken, and added to `--out` (JSON lines); what they say together
comes at the end, also when it is interrupted. `--seed` goes on with other keys than those of an earlier run.
"""

import argparse
import asyncio
import contextlib
import sys
from collections.abc import Callable
from pathlib import Path

from tests.lsp.editor import editing
from tests.soak import mixed, typing
from tests.soak.samples import Sample, keep, summary

SAMPLES = 100  # of a run over mixed requests
WARM_REQUESTS = 1_000
SAMPLE_SECONDS = 30.0
WARM_SAMPLES = 4


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument(
        "what", choices=("mixed", "typing"), help="requests to a fake model, or typing with the real one"
    )
    parser.add_argument("--requests", type=int, default=100_000, help="mixed: how many (default: 100000)")
    parser.add_argument("--minutes", type=float, default=60.0, help="typing: how long (default: 60)")
    parser.add_argument("--seed", type=int, default=0, help="what it starts from (default: 0)")
    parser.add_argument("--out", type=Path, help="file for the samples")
    args = parser.parse_args()
    samples: list[Sample] = []

    def took(taken: Sample) -> None:
        samples.append(taken)
        keep(taken, args.out)

    with contextlib.suppress(KeyboardInterrupt):
        if args.what == "mixed":
            every = max(1, args.requests // SAMPLES)
            asyncio.run(_mixed(args.requests, every, args.seed, took))
            print(summary(samples, max(1, WARM_REQUESTS // every)))
        else:
            measured = asyncio.run(typing.type_for(60 * args.minutes, args.seed, SAMPLE_SECONDS, took))
            print(summary(samples, WARM_SAMPLES))
            print(measured.figures())
        return 0
    print(summary(samples, WARM_SAMPLES))
    return 1


async def _mixed(n: int, every: int, seed: int, took: Callable[[Sample], None]) -> None:
    async with editing(options=mixed.OPTIONS, FAKE_TEXT="rate * sum(items)") as editor:
        await mixed.send(editor, n, every, took, seed)


if __name__ == "__main__":
    sys.exit(main())
