"""Tensors that models in this process are fed with and give back: number types, dimensions and values."""
