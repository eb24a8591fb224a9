"""The schema, the statements and the connections of the stores in SQL databases."""
