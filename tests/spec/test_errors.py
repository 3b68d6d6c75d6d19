"""Errors have three parts, keep them from one process to another, and are what Python code expects to catch."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

import watersmeet as wm
from watersmeet.cli.extras import MissingExtraError

ERRORS = [
    (wm.WatersmeetError, Exception),
    (wm.SpecificationError, ValueError),
    (wm.ColumnTypeError, TypeError),
    (wm.SchemaError, ValueError),
    (wm.LateRowError, ValueError),
    (wm.SnapshotError, ValueError),
    (MissingExtraError, ImportError),
]


@pytest.mark.parametrize(("error", "builtin"), ERRORS)
def test_an_error_is_text_of_three_parts(error: type[wm.WatersmeetError], builtin: type[Exception]) -> None:
    raised = error("this was given", "that is allowed", "do it")
    assert isinstance(raised, builtin)
    assert str(raised) == "this was given\n  allowed: that is allowed\n  next step: do it"


@pytest.mark.parametrize("error", [error for error, _ in ERRORS])
def test_an_error_keeps_its_parts_when_it_is_copied_and_pickled(error: type[wm.WatersmeetError]) -> None:
    raised = error("given", "allowed", "next")
    for again in (copy.copy(raised), pickle.loads(pickle.dumps(raised))):  # noqa: S301 -- our own bytes
        assert type(again) is error
        assert (again.given, again.allowed, again.next_step) == ("given", "allowed", "next")


def test_an_error_of_another_process_is_raised_here_with_its_parts() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        failed = pool.submit(wm.count_window, -1)
        with pytest.raises(wm.SpecificationError, match="allowed: whole numbers of rows") as raised:
            failed.result()
    assert raised.value.given == "a count window of left=-1, right=-1"
