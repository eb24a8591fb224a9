"""What `check_store` tries out, by subject. Each check is a function of an empty store and its clock."""
