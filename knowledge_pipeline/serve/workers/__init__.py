"""Several processes that answer behind one port."""
