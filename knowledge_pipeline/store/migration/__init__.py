"""Brings a store that an earlier schema wrote to the present one, in place, and back."""
