"""Responses, declared once: every interface derives from them."""
