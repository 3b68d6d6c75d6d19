"""ONE slice of ONE stream: the contract, five structures behind it, and the one file that decides which."""
