"""Micro-benchmarks of the hardware itself: memory bandwidth, arithmetic by precision, transfers, storage.

records.py    what is asked for, and what one test leaves behind
timing.py     blocks of work long enough to be timed, by the clock of the machine or by events of the device
sizes.py      which sizes and shapes: from caches, free memory and usable cores
sweep.py      one test over its sizes; a size that fails is left out with its reason
outcome.py    from a curve to the result of a test
plateau.py    which size speaks for a curve
accuracy.py   whether a product is right
versus.py     the same work in a bare loop beside, in turn
storage.py    a large file, read as a model is loaded
cpu/          processor and its memory, with numpy alone
gpu/          everything else, through PyTorch
"""
