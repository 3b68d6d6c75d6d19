"""Models: what no machine here can run, computed step by step. Nothing they give was measured."""
