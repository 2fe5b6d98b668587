"""Telling people: rules, the life of an alert, grouping, and ways to send a message."""
