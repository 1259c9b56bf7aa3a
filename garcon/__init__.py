"""Garcon: one controller, any number of executors, and one command."""
