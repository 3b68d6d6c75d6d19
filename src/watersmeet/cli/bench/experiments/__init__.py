"""One module per experiment: each says what it is for, its seed, the shape of its data and what to expect."""
