"""MANY machines: joins of Spark DataFrames, streaming or batch. Only public PySpark API is used."""
