"""The search page: HTML made here, which works without scripts, and a small script that makes it quicker."""
