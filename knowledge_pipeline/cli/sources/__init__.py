"""`knowledge sources`: declare, test, list and remove sources."""
