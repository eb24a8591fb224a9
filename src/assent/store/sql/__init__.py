"""What the stores in SQL databases share: one schema, one set of statements, one way to do each thing."""
