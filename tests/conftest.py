"""What holds for every test process."""

import os

# Threads that wait must sleep, not spin: the tests share their cores with other processes.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
