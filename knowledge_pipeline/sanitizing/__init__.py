"""Secrets and personal data, found and taken out before anything is embedded or indexed."""
