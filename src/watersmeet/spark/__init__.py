"""MANY machines: the join as an ordinary (streaming or batch) Spark DataFrame. Only public PySpark API is used."""
