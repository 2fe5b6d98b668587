"""Services and endpoints: how they are asked, how their answers are read, and the figures that come of it."""
