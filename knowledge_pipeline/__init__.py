"""An organisation's knowledge, reconciled stage by stage into LanceDB tables that agents can trust."""

__version__ = "0.1.0"
