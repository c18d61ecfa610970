"""What differs by language: how its files are read, and how names lead to definitions."""
