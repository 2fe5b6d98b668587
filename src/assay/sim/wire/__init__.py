"""HTTP/1.1 over non-blocking sockets, and timers finer than a millisecond."""
