"""JSON schemas of Python types: how models are told of arguments, and how arguments are checked and bound exactly."""
