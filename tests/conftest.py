"""What holds for every test process."""

import os

# Threads that wait must sleep, not spin: the tests share their cores with other processes.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch

# Triton's interpreter is chosen when triton is imported, for the whole process, and any test may be the first to do it.
# Without a CUDA device it is switched on here; with one, `TRITON_INTERPRET=1 pytest -m 'not gpu'` runs its half.
os.environ.setdefault("TRITON_INTERPRET", "0" if torch.cuda.is_available() else "1")
