"""Which cores a row goes to."""
