"""Issues of Linear as a source of knowledge-pipeline."""
