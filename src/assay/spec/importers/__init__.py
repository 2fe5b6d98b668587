"""Documents of other tools, turned into benchmarks: one module per tool.

A package of yours adds one with a module (or an object) that has `TITLE`, `recognises` and `imported`, as the protocol
`Importer` says, and an entry point of the group `assay.importers` that names it.
"""

from assay.spec.importers.registry import GROUP, Imported, Importer, find_importer, importer_names, own_source

__all__ = ["GROUP", "Imported", "Importer", "find_importer", "importer_names", "own_source"]
