"""Micro-benchmarks of the hardware itself: memory bandwidth, arithmetic by precision, transfers, storage.

records.py       what is asked for, what one test leaves behind, and whether a product is right
sweep.py         work timed in blocks, beside a bare loop, and over sizes
outcome.py       which sizes, and from a curve to the result of a test
storage.py       a large file, read as a model is loaded
cpu_*.py         processor and its memory, with numpy alone
accelerator.py   a device of PyTorch; with device `cpu` the same code runs without an accelerator
gpu_*.py         everything but the processor, through PyTorch
"""
