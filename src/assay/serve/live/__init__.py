"""What goes on while nobody asks: agents that wait, listeners, and the steps that time demands."""
