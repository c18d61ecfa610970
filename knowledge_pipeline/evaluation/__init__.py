"""Golden questions: reading them, judging what a search found for them, scoring it. Pure; asks nobody."""
