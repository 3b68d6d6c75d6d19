"""HOW, on arrays: compiled functions over contiguous arrays and scalars.

No classes, no validation, no knowledge of predicates or schemas: whoever calls a kernel has checked its arguments.
"""
