"""Identities of an OpenID provider: its keys, its tokens, and whom they name."""
