"""A published checkpoint from its folder or its name to a filled middle, on tiny random weights."""

import dataclasses
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

from mercury_model import CheckpointError, FetchError, RequestError, load
from mercury_model.aligned import AlignedDenoiser
from mercury_model.denoiser import Choice, perform
from mercury_model.draft import Draft, Request, Snippet
from mercury_model.hub import checkpoint_folder
from mercury_model.local import LocalInfiller
from mercury_model.prompt import prompt
from mercury_model.tokens import Tokens
from mercury_model.transformer import Rows
from tests.model import tiny
from tests.model.test_families import CASES, Case, independent, write

PREFIX, SUFFIX = "def add(values):\n    total = 0\n", "\n    return total\n"
SEED_FIM = ("<[fim-suffix]>", "<[fim-prefix]>", "<[fim-middle]>")


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """Loading a model sets the number of threads for the whole process."""
    n = torch.get_num_threads()
    yield
    torch.set_num_threads(n)


def with_tokenizer(folder: Path) -> Path:
    tiny.tokens(folder)
    path = folder / "tokenizer.json"
    spec = json.loads(path.read_text())
    for n, name in enumerate(SEED_FIM, 261):
        spec["added_tokens"].append({**spec["added_tokens"][0], "id": n, "content": name, "special": False})
    path.write_text(json.dumps(spec))
    return folder


def case_of(family: str) -> Case:
    return next(c for c in CASES if c.family == family)


def loaded(case: Case, at: Path, dtype: str = "float32") -> LocalInfiller:
    folder, _ = write(case, at)
    infiller = load(str(with_tokenizer(folder)), device="cpu", dtype=dtype)
    assert isinstance(infiller, LocalInfiller)
    return infiller


def last(infiller: LocalInfiller, request: Request) -> Draft:
    return list(infiller(request))[-1]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.family)
def test_every_family_fills_a_middle_from_its_folder(case: Case, tmp_path: Path) -> None:
    infiller = loaded(case, tmp_path)
    assert infiller.info.kind == ("block" if case.block else "bidirectional")
    context = (Snippet("other.py", "import math\n"),)
    for policy in ("threshold", "maskgit_plus"):
        draft = last(infiller, Request(PREFIX, SUFFIX, policy=policy, max_tokens=12, effort="low", context=context))
        assert draft.done and draft.n_open == 0 and draft.n_tokens <= 12
        assert draft.ended in ("end", "length")
    with pytest.raises(RequestError, match="choose threshold"):
        last(infiller, Request(PREFIX, SUFFIX, policy="check"))


@pytest.mark.parametrize("dtype", ["int8", "bf16"])
def test_smaller_weights_fill_too(dtype: str, tmp_path: Path) -> None:
    draft = last(loaded(case_of("dreamon"), tmp_path, dtype), Request(PREFIX, SUFFIX, policy="factor", max_tokens=9))
    assert draft.done and draft.n_open == 0


@pytest.mark.parametrize("family", ["sdar", "fast-dllm-v2", "stable-diffcoder"])
@pytest.mark.parametrize("n_known", [1, 7, 8, 9, 30])
def test_blocks_are_denoised_and_cached_as_the_publisher_runs_them(family: str, n_known: int, tmp_path: Path) -> None:
    case = case_of(family)
    folder, model = write(case, tmp_path)
    infiller = load(str(with_tokenizer(folder)), device="cpu", dtype="float32")
    assert isinstance(infiller, LocalInfiller) and isinstance(infiller.denoiser, AlignedDenoiser)
    shift = 1 if family == "fast-dllm-v2" else 0
    g = torch.Generator().manual_seed(n_known)
    known: list[int] = torch.randint(0, 256, (n_known,), generator=g).tolist()
    session = infiller.denoiser.session("a.py")
    transformer = infiller.denoiser.transformer
    for ask in session.prefill(known[:-1]):
        perform(transformer, [ask])
    for _ in range(3):
        slots = [case.mask_id if i % 2 else 65 + i for i in range(case.block)]
        found = perform(transformer, [session.draft(known[-1], slots, Choice())])[0]
        assert found is not None
        logits = independent(model, torch.tensor([*known, *slots]), case.block)
        rows = logits[len(known) - shift : len(known) + len(slots) - shift].clone()
        rows[:, list(infiller.denoiser._never)] = float("-inf")
        assert found.confidence == pytest.approx(rows.softmax(-1).amax(-1).tolist(), abs=2e-4)
        block: list[int] = torch.randint(0, 256, (case.block,), generator=g).tolist()
        perform(transformer, [session.check([known[-1], *block], Choice())])
        session.keep(len(block))
        known += block
        assert len(session.ids) == (len(known) - 1) // case.block * case.block
    # what the cache holds of finished blocks equals what a run from nothing would hold
    fresh = transformer.new_cache()
    ids = torch.tensor(session.ids)
    transformer.forward([Rows(ids, fresh, 0, block=case.block)])
    torch.testing.assert_close(session.cache.keys[:, :, : len(ids)], fresh.keys[:, :, : len(ids)], atol=1e-4, rtol=1e-4)


def test_typing_into_a_block_checkpoint_runs_only_new_blocks(tmp_path: Path) -> None:
    infiller = loaded(case_of("sdar"), tmp_path)
    request = Request(PREFIX + "\n", SUFFIX, document="a.py", policy="threshold", max_tokens=8)
    assert last(infiller, request).prefilled > len(SUFFIX)
    typed = "total = sum(values) + something_else\n"
    ran = sum(
        last(infiller, dataclasses.replace(request, prefix=request.prefix + typed[:n])).prefilled
        for n in range(1, len(typed) + 1)
    )
    assert ran <= len(typed) + 8


def test_a_block_checkpoint_rewrites_what_is_pointed_at(tmp_path: Path) -> None:
    infiller = loaded(case_of("sdar"), tmp_path)
    code = "value = 1\nvalues = value\nother = valye\n"
    start = code.index("valye")
    request = Request(PREFIX, SUFFIX, original=code, doubtful=((start, start + 5),), policy="threshold", effort="low")
    text = last(infiller, request).text
    assert text.startswith(code[:start]) and text.endswith("\n")
    with pytest.raises(RequestError, match="point at it"):
        last(infiller, dataclasses.replace(request, doubtful=()))


def test_the_prompt_of_a_family_is_a_row_of_the_table(tmp_path: Path) -> None:
    folder = with_tokenizer(tmp_path)
    seed = Tokens(
        folder / "tokenizer.json", ("<[fim-suffix]>", "{suffix}", "<[fim-prefix]>", "{prefix}", "<[fim-middle]>")
    )
    ids = prompt(seed, Request("a\n", "b")).ids
    assert [i for i in ids if seed.is_special(i)] == [261, 262, 263]
    assert seed.decode(ids) == "ba\n"
    # not flagged by its publisher, and still no text of a user becomes it
    assert not any(seed.is_special(i) for i in seed.encode("<[fim-middle]>"))


# --- names ----------------------------------------------------------------------------------------------------


def test_a_name_is_a_folder_a_repository_or_neither(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, object]] = []

    def snapshot_download(repo: str, *, revision: str | None, allow_patterns: list[str]) -> str:
        asked.append((repo, revision))
        assert not any(p.endswith((".py", ".bin", ".pt")) for p in allow_patterns)
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    assert checkpoint_folder(str(tmp_path)) == tmp_path
    assert checkpoint_folder("quicksilver-0.5b") is None
    assert checkpoint_folder("Dream-org/DreamOn-v0-7B") == tmp_path
    assert checkpoint_folder("Dream-org/DreamOn-v0-7B@main") == tmp_path
    assert asked == [("Dream-org/DreamOn-v0-7B", None), ("Dream-org/DreamOn-v0-7B", "main")]
    for name in ("/no/such/folder", "./nowhere", "~/nowhere-at-all"):
        with pytest.raises(RequestError, match="no such folder"):
            checkpoint_folder(name)


def test_a_hub_that_cannot_be_reached_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub.errors import LocalEntryNotFoundError

    for error in (LocalEntryNotFoundError("long\nstory"), OSError("no route\nto host"), ValueError("")):

        def fail(*args: object, error: Exception = error, **kwargs: object) -> str:
            raise error

        monkeypatch.setattr("huggingface_hub.snapshot_download", fail)
        with pytest.raises(FetchError, match=r"org/name.*give its folder") as caught:
            load("org/name", device="cpu")
        assert "\n" not in str(caught.value)


def test_a_folder_without_a_checkpoint_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="cannot be read"):
        load(str(tmp_path), device="cpu")
    folder, _ = write(CASES[0], tmp_path)
    with pytest.raises(CheckpointError, match="not a tokenizer"):
        load(str(folder), device="cpu")


# --- tokenizers -----------------------------------------------------------------------------------------------


def test_a_tokenizer_in_parts_is_put_together(tmp_path: Path) -> None:
    tiny.tokens(tmp_path)
    whole = Tokens(tmp_path / "tokenizer.json")
    parts = tmp_path / "parts"
    parts.mkdir()
    Tokenizer.from_file(str(tmp_path / "tokenizer.json")).model.save(str(parts))
    (parts / "added_tokens.json").write_text(json.dumps({name: 256 + n for n, name in enumerate(tiny.SPECIALS)}))
    built = Tokens(parts / "tokenizer.json")
    text = "def f(x):\n\treturn 'é <|endoftext|>'\r\n"
    assert built.encode(text) == whole.encode(text)
    assert built.decode(built.encode(text)) == text
    assert built.special_ids == whole.special_ids == {256, 257, 258, 259, 260}


def test_a_normaliser_does_not_rewrite_the_users_text(tmp_path: Path) -> None:
    tiny.tokens(tmp_path)
    path = tmp_path / "tokenizer.json"
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.save(str(path))
    tokens = Tokens(path)
    assert tokens.decode(tokens.encode("e\u0301")) == "e\u0301"


def test_a_tokenizer_that_loses_text_is_refused(tmp_path: Path) -> None:
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "def": 1}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<|endoftext|>")])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(CheckpointError, match="not a byte-level tokenizer"):
        Tokens(tmp_path / "tokenizer.json")
    shutil.rmtree(tmp_path)
    with pytest.raises(CheckpointError, match="not a tokenizer"):
        Tokens(tmp_path / "tokenizer.json")


def test_the_memory_for_caches_is_what_was_asked_for(tmp_path: Path) -> None:
    folder, _ = write(CASES[0], tmp_path)
    infiller = load(str(with_tokenizer(folder)), device="cpu", dtype="float32", cache_bytes=12345)
    assert isinstance(infiller, LocalInfiller)
    assert infiller.denoiser.sessions.cache_bytes == 12345
