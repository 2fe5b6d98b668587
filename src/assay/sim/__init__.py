"""A fast, scriptable server with known truth: what a load generator reports can be compared with what was done.

`python -m assay.sim llm` and `assay sim llm` start one; the other modules are what it is made of:

script     what the server does, and when: every setting with its meaning
world      the requests as a whole (numbers, slots, stops), and one answer, written at the times that the script gives
records    what was written when, and sums of it
apis       the protocols: OpenAI, Ollama, plain JSON, and the server's own record
wire       HTTP/1.1, sockets and timers
null       the fastest answer possible, to find a client's own ceiling
history    results of many nights with known truth, and how findings are held against it
"""
