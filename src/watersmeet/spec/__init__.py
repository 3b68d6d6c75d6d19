"""WHAT to join: predicates and windows as frozen values, and the SQL reader. No NumPy, no Spark, no state."""
