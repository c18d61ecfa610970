"""MCP: tools for agents, by the official SDK, over stdio and over HTTP."""
