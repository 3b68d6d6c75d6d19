"""ONE stream's sliding window: a chain of subwindows; create, insert, probe, expire; snapshot."""
