"""Texts of a wanted length: how long each is to be, and plain words that come to exactly that many tokens."""
