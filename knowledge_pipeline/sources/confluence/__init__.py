"""Pages and blog posts of Confluence, Cloud and Server."""
