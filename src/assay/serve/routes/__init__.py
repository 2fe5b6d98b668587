"""The routes of /api/v1, one file per noun; each parses, asks the store, and answers with a record."""
