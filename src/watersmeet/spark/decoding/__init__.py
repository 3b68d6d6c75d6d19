"""Rows out of messages: what a decoded side's packers do with the bytes that Spark gives them."""
