"""Git repositories: their files at a branch's tip, and their history."""
