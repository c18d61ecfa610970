"""Where documents come from: one module or two per kind of origin; the store is not known here."""
