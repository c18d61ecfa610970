"""One function per stage: what should exist, what does, and the difference carried out."""
