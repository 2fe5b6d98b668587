"""The command line: one file per verb. It holds no logic of its own."""
