"""The same scenarios over every agent; what takes too long for each change to be tried."""
