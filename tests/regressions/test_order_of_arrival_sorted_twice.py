"""With an ``order_by`` rows of a count window were sorted twice: for their own numbers, and for those of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from watersmeet.arrays import Int64s
from watersmeet.window import arrival


def test_every_stream_is_sorted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sorts: list[int] = []

    def counting(sort: Callable[..., Any]) -> Callable[..., Any]:
        def counted(values: Int64s, **options: Any) -> Any:
            sorts.append(len(values))
            return sort(values, **options)

        return counted

    for name in ("sort", "argsort"):
        monkeypatch.setattr(np, name, counting(getattr(np, name)))
    keys = {"a": np.array([3, 1, 2]), "b": np.array([2, 2]), "c": np.array([0])}
    sizes, first = {name: len(own) for name, own in keys.items()}, dict.fromkeys(keys, 0)
    counts = arrival.count_arrivals(sizes, {name: (own, None) for name, own in keys.items()}, first)
    assert counts["b"]["a"].tolist() == [2, 2]
    assert counts["a"]["a"].tolist() == [2, 0, 1]
    assert sorted(sorts) == [1, 2, 3]
