"""ONE stream's sliding window: a chain of segments; create, insert, probe, expire; admission and arrival."""
