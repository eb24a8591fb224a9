"""The version of this package, as saved runs record it."""

VERSION = "0.1.0"
