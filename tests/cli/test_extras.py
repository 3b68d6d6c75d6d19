"""Optional packages: which are there, and what is said of one that is missing."""

from __future__ import annotations

import pytest

from watersmeet.cli.extras import MissingExtraError, is_installed, load


def test_missing_package_names_the_extra() -> None:
    with pytest.raises(MissingExtraError, match=r"pip install 'watersmeet\[spark\]'"):
        load("no_such_package", needed_for="this test", extra="spark")


def test_a_package_that_is_there_is_loaded() -> None:
    assert is_installed("numpy")
    assert not is_installed("no_such_package")
    assert load("numpy.linalg", needed_for="this test", extra="spark").__name__ == "numpy.linalg"
