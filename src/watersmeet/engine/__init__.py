"""ONE machine: the in-process join, and the topologies that put windows and cores together."""
