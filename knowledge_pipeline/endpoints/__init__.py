"""What every client of an OpenAI-compatible endpoint shares, whatever it asks for."""
