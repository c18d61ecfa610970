"""A language model, asked over any OpenAI-compatible endpoint. Nothing needs one."""
