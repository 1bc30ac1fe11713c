"""The version of the library, written into every model file."""

VERSION = "1.0.0"
