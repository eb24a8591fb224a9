"""One module for each migration; its number is the version of the schema that it leads to."""
