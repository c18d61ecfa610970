"""The code graph stage: facts of each file, resolved into the shared tables of symbols and edges."""
