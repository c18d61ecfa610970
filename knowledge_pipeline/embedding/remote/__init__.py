"""Endpoints that embed: one protocol a module, all behind `embedder.RemoteEmbedder`."""
