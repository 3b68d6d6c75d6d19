"""Each PySpark with each Python: the wheel, installed, runs some tests in an environment of its own."""
