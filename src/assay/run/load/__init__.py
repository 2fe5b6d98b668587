"""How a target is driven: the loops that keep the clock."""
