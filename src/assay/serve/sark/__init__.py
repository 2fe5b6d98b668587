"""SARK's surface under /api: the paths, fields and codes that its clients and workers already use."""
