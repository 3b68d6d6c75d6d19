"""FROM COLUMNS TO KEYS: evaluates expressions on Arrow columns and normalises values to int64 keys, at the edge."""
