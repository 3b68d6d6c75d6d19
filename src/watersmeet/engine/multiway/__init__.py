"""Joins of many streams (Circular-MJ and Stashed-MJ)."""
