"""`knowledge watch`: local folders and remote repositories, refreshed as they change."""
