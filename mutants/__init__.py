"""Single-place changes of the package that its tests have to notice: ``python -m mutants`` (``make mutants``)."""
