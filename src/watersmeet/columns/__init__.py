"""FROM COLUMNS TO KEYS: evaluates expressions on Arrow columns and turns their values into int64 keys."""
