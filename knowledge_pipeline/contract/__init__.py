"""Requests and responses, declared once; every interface and golden questions derive from them."""
