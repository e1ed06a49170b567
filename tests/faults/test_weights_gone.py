"""Weights that are deleted or replaced while a model runs from them."""

import os
import shutil
from pathlib import Path

import pytest

from mercury_model import CheckpointError, load
from mercury_model.draft import Request
from tests.model.test_loading import PREFIX, SUFFIX, case_of, last, loaded

REQUEST = Request(PREFIX, SUFFIX, policy="threshold", max_tokens=9, effort="low")


@pytest.mark.skipif(os.name == "nt", reason="files in use stay there")
@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_a_loaded_model_goes_on_and_the_next_one_says_what_is_wrong(how: str, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    infiller = loaded(case_of("dreamon"), tmp_path / "model")
    before = last(infiller, REQUEST).text
    (folder,) = {path.parent for path in (tmp_path / "model").rglob("*.safetensors")}
    if how == "deleted":
        shutil.rmtree(folder)
    else:
        for path in folder.glob("*.safetensors"):
            path.with_suffix(".new").write_bytes(b"not weights")
            path.with_suffix(".new").replace(path)
    assert last(infiller, REQUEST).text == before
    if how == "replaced":
        with pytest.raises(CheckpointError) as caught:
            load(str(folder), device="cpu", dtype="float32")
        assert "\n" not in str(caught.value)
