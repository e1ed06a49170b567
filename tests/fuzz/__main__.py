"""`python -m tests.fuzz --steps 100000`: as many steps of the state machine of protocol.py as are wanted.

It runs batch after batch, each from a seed of its own, and says after each where to go on (`--seed`). A failure is
printed with the steps that led to it; the same seed finds it again.
"""

import argparse
import sys

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.fuzz.protocol import Protocol, Server

MACHINES = 50
"""A batch: so many machines of up to STEPS steps."""
STEPS = 50


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--steps", type=int, default=100_000, help="how many, at least (default: 100000)")
    parser.add_argument("--seed", type=int, default=0, help="of the first batch (default: 0)")
    args = parser.parse_args()
    chosen = settings(
        max_examples=MACHINES,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        phases=[Phase.generate],  # a process that was shared by many machines is no place to shrink one
        suppress_health_check=list(HealthCheck),
    )
    number = args.seed
    try:
        while Server.steps < args.steps:
            run_state_machine_as_test(seed(number)(Protocol), settings=chosen)
            number += 1
            print(f"{Server.steps:,} steps without a fault; go on with --seed {number}", flush=True)
    finally:
        Server.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
