"""Joins of many streams in one process (Circular-MJ and Stashed-MJ)."""
