"""A small picture of a series: laid out once, written as SVG and as PNG."""
