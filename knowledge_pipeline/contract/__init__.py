"""What may be asked and what is answered, declared once: HTTP, MCP, CLI, page, client and golden questions derive from it."""
