"""Events that services send: whether they are genuine and new, and which documents they are about."""
