"""A join's life: open, then finished, closed or failed. What every join that a user pushes rows into has in common."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

from watersmeet.spec.errors import SpecificationError, explain_refusal

__all__ = ["Lifecycle"]


class Lifecycle:
    """Ends with ``close``, also that of a ``with`` statement; after an error in a push it is of no further use."""

    _stop: Callable[[], object]
    """Ends all threads."""
    _finished = False
    _failed = False

    def close(self) -> None:
        """End all threads and give up what is owed. A join used in a ``with`` statement is closed at its end."""
        self._finished = True
        self._stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_open(self, what: str) -> None:
        join = type(self).__name__
        if self._failed:
            raise SpecificationError(
                explain_refusal(
                    f"{what} was called after a push that failed",
                    "calls before any error in a push; what the windows held is no longer certain",
                    f"restore the last snapshot, or build a new {join}",
                )
            )
        if self._finished and what == "push()":
            raise SpecificationError(
                explain_refusal(
                    "push() was called after finish() or close()",
                    "pushes before finish()",
                    f"build a new {join} for further rows",
                )
            )
