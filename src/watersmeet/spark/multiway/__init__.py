"""Joins of many streams on Spark."""
