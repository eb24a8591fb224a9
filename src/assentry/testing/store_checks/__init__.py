"""The checks of `check_store`, by subject. Each check is a function of an empty store and its clock."""
