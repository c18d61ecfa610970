"""`eval` and `tune`: how well questions are answered, and what makes it better."""
