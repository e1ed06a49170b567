"""Tiny models are too small for two threads; the real model sets its own number."""

import torch

torch.set_num_threads(1)
