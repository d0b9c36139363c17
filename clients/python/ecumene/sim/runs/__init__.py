"""The life of a run: its directory, its services, its records, its end."""
