"""Balance on many machines: which core owns which group of keys, and when that changes. No Spark."""
