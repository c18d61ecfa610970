"""Project records as files: sessions, plans, discussions, decisions."""
