"""Benchmarks: experiments that describe themselves, and what they share (data, timing, reports, plots)."""
