"""What the server does between requests: agents that wait, listeners, and the steps that time demands."""
