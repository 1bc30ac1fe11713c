"""The version of the library, written into every model file."""

VERSION = "0.1.0"
