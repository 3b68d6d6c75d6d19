"""How a kernel is compiled: flags, with a cache where there can be one, and not at all where so wished."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import numba
import numpy as np
import pytest

import watersmeet.kernels
from watersmeet.kernels.compile import kernel

IS_COMPILED = not numba.config.DISABLE_JIT
MODULES = [module.name for module in pkgutil.iter_modules(watersmeet.kernels.__path__)]


def doubled(values: Any) -> Any:
    return values * np.uint64(2)


@pytest.mark.skipif(not IS_COMPILED, reason="nothing is compiled")
@pytest.mark.parametrize("name", MODULES)
def test_every_kernel_runs_without_the_lock_and_is_exact(name: str) -> None:
    module = importlib.import_module(f"watersmeet.kernels.{name}")
    for compiled in vars(module).values():
        if isinstance(compiled, numba.core.registry.CPUDispatcher):
            assert compiled.targetoptions["nogil"]
            assert compiled.targetoptions["error_model"] == "numpy"
            assert not compiled.targetoptions.get("fastmath")


def test_a_kernel_gives_what_its_python_gives() -> None:
    assert int(kernel(doubled)(np.uint64(2**63 + 1))) == 2, "numbers wrap around, without a warning"


def test_without_a_folder_to_cache_in_a_kernel_is_compiled_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    njit, asked = numba.njit, []

    def without_locator(*arguments: Any, **options: Any) -> Any:
        asked.append(options.pop("cache", False))
        if asked[-1]:
            raise RuntimeError("cannot cache function 'doubled': no locator available")
        return njit(*arguments, **options)

    monkeypatch.setattr("watersmeet.kernels.compile.numba.config.DISABLE_JIT", False)
    monkeypatch.setattr("watersmeet.kernels.compile.numba.njit", without_locator)
    assert int(kernel(doubled)(np.uint64(21))) == 42
    assert asked[:2] == [True, False]  # Numba may compile functions of its own on the way


def test_uncompiled_a_kernel_is_the_python_it_is_written_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watersmeet.kernels.compile.numba.config.DISABLE_JIT", True)
    function = kernel(doubled)
    assert not isinstance(function, numba.core.registry.CPUDispatcher)
    assert function(np.uint64(2**63)) == 0
