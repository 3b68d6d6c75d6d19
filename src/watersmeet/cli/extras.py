"""What commands are refused for: wrong usage, or a missing optional package; the error says how to install that."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

from watersmeet.spec.errors import WatersmeetError

__all__ = ["MissingExtraError", "WrongUsageError", "is_installed", "load"]


class WrongUsageError(WatersmeetError, ValueError):
    """The command line is wrong."""


class MissingExtraError(WatersmeetError, ImportError):
    """A command needs a package that is not installed."""


def is_installed(name: str) -> bool:
    """Tell whether a package can be loaded."""
    return importlib.util.find_spec(name) is not None


def load(name: str, *, needed_for: str, extra: str) -> ModuleType:
    """Return an optional module, or raise with the command that installs it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError(
            f"{needed_for} needs the package {name.partition('.')[0]}, which is not installed",
            f"an installation with the extra `{extra}`",
            f"pip install 'watersmeet[{extra}]'",
        ) from error
