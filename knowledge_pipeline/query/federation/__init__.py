"""Questions to several stores as one."""
