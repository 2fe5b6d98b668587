"""Ways to tell people: channels by name, ours and those of others.

A package of yours adds a kind of channel with a class derived from `Channel` and an entry point of the group
`assay.notifiers`; what it declares as fields is what the channels file may say.
"""

from assay.alert.notify.protocol import Channel, Notifier, NotifyError

__all__ = ["Channel", "Notifier", "NotifyError"]
