"""The messages between agents, clients and a server, and the HTTP client that sends them."""
