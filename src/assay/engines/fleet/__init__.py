"""The fleet: agents that take jobs from a server. Documents that cross the wire, and the client that moves them."""
