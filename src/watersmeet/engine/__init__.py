"""ONE machine: the joins that users open, their driver, and the topologies that spread rows over cores."""
