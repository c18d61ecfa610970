"""`knowledge.yaml` and the environment: settings, reading and editing the file, and what is wrong with it."""
