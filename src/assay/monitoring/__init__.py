"""Monitoring: Prometheus beside a campaign, and what it scraped kept with the results."""
