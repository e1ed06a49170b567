"""The script that measures tokens per second, with a tiny model: what it counts is right, whatever the times."""

from pathlib import Path

import pytest

import tokens_per_second as script
from tests.model import tiny

N_TOKENS = 24


@pytest.fixture(scope="module")
def rows() -> dict[tuple[str, str], dict[str, float]]:
    contexts = [[*range(1, 60)], [*range(30, 89)]]
    found = script.compare(
        tiny.transformer("int8"), None, contexts, N_TOKENS, mask_id=tiny.MASK, block_size=8, repeats=1
    )
    return {(row["path"], row["policy"]): row for row in found}


def test_every_policy_is_measured_on_both_paths(rows: dict[tuple[str, str], dict[str, float]]) -> None:
    assert set(rows) == {(path, policy) for path in script.PATHS for policy in script.POLICIES}
    for (_, policy), row in rows.items():
        assert row["tokens_per_s"] > 0
        assert row["ms_per_forward"] > 0
        if policy == "greedy":
            assert row["times_greedy"] == row["same_as_greedy"] == 1.0
            # the pass that reads the context says the first token
            assert row["tokens_per_forward"] == N_TOKENS / (N_TOKENS - 1)


def test_a_check_writes_what_greedy_writes(rows: dict[tuple[str, str], dict[str, float]]) -> None:
    for path in script.PATHS:
        assert rows[path, "check"]["same_as_greedy"] == 1.0


def test_the_graph_takes_as_many_passes_as_the_ordinary_way(rows: dict[tuple[str, str], dict[str, float]]) -> None:
    for policy in script.POLICIES:
        assert rows["graph", policy]["tokens_per_forward"] == rows["ordinary", policy]["tokens_per_forward"]


def test_contexts_have_the_length_that_was_asked_for(tmp_path: Path) -> None:
    found = script.contexts_of(tiny.tokens(tmp_path), 512, 3)
    assert [len(context) for context in found] == [512, 512, 512]
    assert found[0] != found[1]


def test_more_context_than_there_is_held_out_code_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="at most"):
        script.contexts_of(tiny.tokens(tmp_path), 10**6, 3)
