"""Starts, stops and kills of every agent, and whether the services then are what they were."""
