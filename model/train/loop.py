"""The training loop: AdamW, warm-up and decay, accumulation, clipping, metrics, checkpoints, exact resume.

Whatever is random in a micro-step is a function of its number. So a run that was stopped and resumed does, bit for
bit on the same machine, what an uninterrupted one does. This module knows nothing about models or data.
"""

import json
import math
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

STATE = "state.pt"
METRICS = "metrics.jsonl"


@dataclass(frozen=True, slots=True)
class Plan:
    """steps: optimiser steps in all, of `accumulate` micro-steps each.

    The rate rises over `warmup` steps, stays at `lr`, and falls along a cosine to a hundredth over the last `decay`
    steps: a run whose end is not known yet keeps decay = 0, and is given its decay when it is to end.
    average: weight of the past in the running mean of the parameters, which is what is measured and shipped.
    """

    steps: int
    lr: float
    warmup: int = 20
    decay: int = 0
    accumulate: int = 1
    clip: float = 1.0
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.95)
    average: float = 0.99
    save_seconds: float = 600.0


Measured = tuple[Tensor, Mapping[str, float]]
"""A micro-step's loss and the numbers to write down about it; what is summed over micro-steps, e.g. counts."""


def rate(plan: Plan, step: int) -> float:
    """The learning rate of step 0, 1, ..."""
    rise = min(1.0, (step + 1) / max(1, plan.warmup))
    done = max(0.0, step - (plan.steps - plan.decay)) / max(1, plan.decay)
    return plan.lr * rise * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(1.0, done))))


class Run:
    """Parameters in training and all that a resumption needs. folder: where state and metrics lie."""

    def __init__(self, net: nn.Module, plan: Plan, folder: Path, notes: Mapping[str, Any]) -> None:
        self.net, self.plan, self.folder = net, plan, folder
        self.notes = dict(notes)
        self.step = 0
        self.seconds = 0.0
        named = [(name, p) for name, p in net.named_parameters() if p.requires_grad]
        self.params = [p for _, p in named]
        groups = [
            {"params": [p for p in self.params if p.dim() > 1], "weight_decay": plan.weight_decay},
            {"params": [p for p in self.params if p.dim() <= 1], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, lr=plan.lr, betas=plan.betas)
        self.start_mean()
        folder.mkdir(parents=True, exist_ok=True)

    def resume(self) -> bool:
        """Go on from the folder's state, if there is one; ValueError if it belongs to another kind of run."""
        path = self.folder / STATE
        if not path.exists():
            return False
        state = torch.load(path, map_location=self.params[0].device, weights_only=True)
        if state["notes"] != self.notes:
            raise ValueError(f"{path} was trained with {state['notes']}, not {self.notes}: choose another --run")
        self.step, self.seconds = state["step"], state["seconds"]
        self.optimizer.load_state_dict(state["optimizer"])
        with torch.no_grad():
            for p, value in zip(self.params, state["params"], strict=True):
                p.copy_(value)
        self.mean = list(state["mean"])
        _drop_metrics_from(self.folder / METRICS, self.step)
        return True

    def save(self) -> None:
        state = {
            "notes": self.notes,
            "plan": asdict(self.plan),
            "step": self.step,
            "seconds": self.seconds,
            "optimizer": self.optimizer.state_dict(),
            "params": [p.detach() for p in self.params],
            "mean": self.mean,
        }
        temporary = self.folder / (STATE + ".tmp")
        torch.save(state, temporary)
        temporary.replace(self.folder / STATE)

    def start_mean(self) -> None:
        """Begin the running mean at what the net holds now: after its parameters were set from outside."""
        self.mean = [p.detach().clone() for p in self.params]

    def use_mean(self) -> None:
        """Put the running mean of the parameters into the net: for measuring and exporting, not for training on."""
        with torch.no_grad():
            for p, value in zip(self.params, self.mean, strict=True):
                p.copy_(value)

    def fit(self, micro_step: Callable[[int], Measured]) -> None:
        """Train up to plan.steps. SIGTERM and SIGINT end it after the step that is running, with its state saved.

        micro_step(i): the i-th micro-step's loss, which must depend on i and the parameters alone.
        """
        stopping = _Stop()
        saved = time.monotonic()
        with stopping:
            while self.step < self.plan.steps and not stopping.asked:
                began = time.monotonic()
                line = self._one(micro_step)
                self.seconds += time.monotonic() - began
                with (self.folder / METRICS).open("a", encoding="utf-8") as file:
                    file.write(json.dumps({**line, "seconds": round(self.seconds, 2)}) + "\n")
                if time.monotonic() - saved > self.plan.save_seconds:
                    self.save()
                    saved = time.monotonic()
        self.save()

    def _one(self, micro_step: Callable[[int], Measured]) -> dict[str, float]:
        plan = self.plan
        lr = rate(plan, self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.zero_grad(set_to_none=True)
        total, sums = 0.0, dict[str, float]()
        for i in range(plan.accumulate):
            loss, measured = micro_step(self.step * plan.accumulate + i)
            (loss / plan.accumulate).backward()
            total += float(loss.detach()) / plan.accumulate
            for name, value in measured.items():
                sums[name] = sums.get(name, 0.0) + value
        norm = torch.nn.utils.clip_grad_norm_(self.params, plan.clip)
        self.optimizer.step()
        self.step += 1
        keep = min(plan.average, self.step / (self.step + 9))
        with torch.no_grad():
            for mean, p in zip(self.mean, self.params, strict=True):
                mean.lerp_(p, 1 - keep)
        return {"step": self.step, "loss": total, "lr": lr, "norm": float(norm), **sums}


class _Stop:
    """Signals asked to stop; the handlers before are put back."""

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        def ask(number: int, frame: object) -> None:
            del number, frame
            self.asked = True

        for number in (signal.SIGTERM, signal.SIGINT):
            self._before[number] = signal.signal(number, ask)

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def _drop_metrics_from(path: Path, step: int) -> None:
    """Lines of steps after the state that a run goes on from would otherwise stand there twice."""
    if path.exists():
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if json.loads(line)["step"] <= step]
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def read_metrics(path: Path) -> Iterable[dict[str, float]]:
    """The lines of a metrics file."""
    for line in path.read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def compute_dtype(device: torch.device) -> torch.dtype:
    """bf16 where the device has units for its products (2.5 times as fast on such a CPU), float32 elsewhere."""
    has_units = device.type == "cuda" or torch.cpu._is_avx512_bf16_supported()  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    return torch.bfloat16 if has_units else torch.float32


def mixed_precision(device: torch.device) -> AbstractContextManager[object]:
    """Products in compute_dtype, the rest in float32."""
    dtype = compute_dtype(device)
    return torch.autocast(device.type, dtype) if dtype == torch.bfloat16 else nullcontext()
