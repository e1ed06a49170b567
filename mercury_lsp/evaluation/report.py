"""The figures of HumanEval-Infilling rows, and any figures drawn for people. Knows nothing about models or files."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from mercury_lsp.evaluation.aggregate import rate, seconds
from mercury_lsp.evaluation.humaneval import Row


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """One decoding's figures. Rates are 0 to 1 over `n` tasks; tokens, forwards and prefilled are summed over
    them, and forwards are full-depth passes, prefill apart."""
    tokens = sum(row.tokens for row in rows)
    forwards = sum(row.forwards for row in rows)
    first = rows[0]
    return {
        "n": len(rows),
        "policy": first.policy,
        "effort": first.effort,
        "model": first.model,
        "pass_at_1": rate([row.passed for row in rows]),
        "exact_match": rate([row.exact for row in rows]),
        "syntax_valid": rate([row.valid for row in rows]),
        "forwards_per_token": forwards / tokens if tokens else 0.0,
        "tokens_per_forward": tokens / forwards if forwards else 0.0,
        "stopped_by_itself": rate([row.ended == "end" for row in rows]),
        "seconds": seconds([row.seconds for row in rows]),
        "tokens": tokens,
        "prefilled": sum(row.prefilled for row in rows),
    }


def comparison(rows: Sequence[Row], greedy: Sequence[Row]) -> dict[str, Any]:
    """The figures of `rows` with one-at-a-time decoding beside them, over the tasks that both have answered."""
    texts = {row.task: row.text for row in greedy}
    shared = [row for row in rows if row.task in texts]
    return {
        **summary(shared),
        "greedy": summary([row for row in greedy if row.task in {r.task for r in shared}]),
        "texts_equal": rate([row.text == texts[row.task] for row in shared]),
    }


def table(title: str, columns: Mapping[str, Mapping[str, Any]]) -> Table:
    """Figures as rows, one column per entry of `columns`; nested figures are named with a dot."""
    drawn = Table(title=title)
    drawn.add_column("")
    flat = {name: _flatten(figures) for name, figures in columns.items()}
    for name in flat:
        drawn.add_column(name, justify="right")
    names = dict.fromkeys(key for figures in flat.values() for key in figures)
    for key in names:
        drawn.add_row(key, *(figures.get(key, "") for figures in flat.values()))
    return drawn


def _flatten(figures: Mapping[str, Any]) -> dict[str, str]:
    shown: dict[str, str] = {}
    for key, value in figures.items():
        if isinstance(value, Mapping):
            shown |= {f"{key}.{inner}": text for inner, text in _flatten(value).items()}
        else:
            shown[key] = f"{value:.3f}" if isinstance(value, float) else str(value)
    return shown
