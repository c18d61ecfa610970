"""The log of events that subscribers of a store are told of."""
