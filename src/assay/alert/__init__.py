"""Alerts: rules, life cycle, grouping, notifications and the digest."""
