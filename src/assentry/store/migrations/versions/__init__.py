"""One module for each migration. A module's number is the schema version after its migration."""
