"""What the simulated server says: OpenAI, Ollama, plain JSON, and its own record."""
