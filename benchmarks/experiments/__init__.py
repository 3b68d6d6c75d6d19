"""One folder per suite, one module per experiment: each says what it is for, its seed, its data, what to expect."""
