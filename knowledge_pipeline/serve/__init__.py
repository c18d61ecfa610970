"""Doors for programs and people: HTTP, MCP, a page. Each asks `Service`, which decides who may."""
