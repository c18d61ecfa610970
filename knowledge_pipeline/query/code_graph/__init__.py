"""Questions to the code graph: usages, calls, hierarchies, dependencies."""
