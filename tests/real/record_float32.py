"""Writes tests/data/heldout/float32.json: what the 32-bit weights say about the held-out middles.

    python -m tests.real.record_float32

The 8-bit path is then measured against it without the 2.5 GB of the 32-bit form. test_accuracy.py's slow test
notices when the record is no longer true.
"""

import json

from mercury_model import load
from mercury_model.local import LocalInfiller
from tests.real.heldout import RECORD, middles, scored


def main() -> None:
    model = load(device="cpu", dtype="float32")
    assert isinstance(model, LocalInfiller)
    rows = [scored(model, middle) for middle in middles()]
    record = [{"token": row.own_token, "log_p": [round(p, 4) for p in row.log_p]} for row in rows]
    RECORD.write_text("[\n" + ",\n".join(json.dumps(row) for row in record) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
