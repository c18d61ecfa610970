"""Secrets and personal data, found and removed before anything is embedded or indexed."""
