"""The version of assay, for every room: importing the package itself would import what is above it."""

__version__ = "0.1.0"
