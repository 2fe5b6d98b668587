"""The fleet's records: agents, leases, endings, history. `assay.store.control.Control` puts them together."""
