"""Texts to vectors: one provider a module, all behind `base.Embedder`."""
