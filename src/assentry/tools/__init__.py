"""Tools: the shape they share, and a module for each kind."""
