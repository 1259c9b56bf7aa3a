"""Pretend model servers on loopback, for driving agent programs without keys and without money."""
