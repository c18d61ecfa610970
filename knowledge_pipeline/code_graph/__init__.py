"""The code graph: what files define, import and use, and which definition each use means."""
