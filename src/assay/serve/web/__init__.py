"""What every route shares: errors, access, limits, logs, paging, the documentation page."""
