"""A fast, scriptable server with known truth: what a load generator reports can be compared with what was done.

`python -m assay.sim llm` and `assay sim llm` start one; the other modules are what it is made of:

script     what the server does, and when: every setting with its meaning
world      the requests as a whole: numbers, slots, stops, records
answer     one answer, written piece by piece at the times that the script gives
apis       what is said: OpenAI, Ollama, plain JSON, and the server's own record
wire       HTTP/1.1, sockets and timers
null       the fastest answer possible, to find a client's own ceiling
"""
