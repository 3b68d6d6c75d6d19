"""What all tests share: how many examples Hypothesis tries, and where real data lies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

REPOSITORY = Path(__file__).resolve().parents[1]

# Derandomised: a property test's seed follows from the test itself, so every machine tries the same examples and a
# failure can be replayed. No deadline: the first call of a kernel compiles it.
settings.register_profile("default", derandomize=True, deadline=None, max_examples=25, print_blob=True)
settings.register_profile("long", settings.get_profile("default"), max_examples=200)
settings.load_profile(os.environ.get("WATERSMEET_HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of real data; skip the test where there is none."""
    folder = Path(os.environ.get("WATERSMEET_DATA", REPOSITORY.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real data: {folder} is not a folder; set WATERSMEET_DATA to the folder that holds it")
    return folder
