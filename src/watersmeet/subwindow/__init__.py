"""ONE stretch of ONE stream: the contract of an index, five structures that keep it, and the file that chooses one."""
