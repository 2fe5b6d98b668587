"""Stage 7 of the data flow: results for people and programs, as text, CSV, JSON, Markdown and HTML."""
