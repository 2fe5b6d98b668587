"""What people are told about an alert, and what the outbox keeps of it."""

from assay.alert.message.told import Message, Row, Told, began_at, notice, pictured, read_told, write_told

__all__ = ["Message", "Row", "Told", "began_at", "notice", "pictured", "read_told", "write_told"]
