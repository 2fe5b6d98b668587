"""The processor and its memory, with numpy alone.

kernels.py   the work itself: passes over arrays, and matrix products
worker.py    a process that holds such work and does it when it is told
crew.py      many such processes, each on its own core, that begin together
suite.py     the tests, one after another

Each core has a process of its own. Threads of one process would take turns at the interpreter between two calls, and
on a machine of many cores that, not the memory, would be measured.
"""
