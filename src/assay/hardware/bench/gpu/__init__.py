"""Everything but the processor, through PyTorch; with device `cpu` the same code runs without an accelerator.

device.py      the device: its memory, caches and clock, and whether it still answers
memory.py      passes over the device's own memory
transfer.py    between the host and the device, from ordinary and from pinned memory
gemm.py        matrix products by precision
bare.py        the same work in a plain loop
suite.py       the tests, one after another
"""
