"""Benches that a person starts: `python -m garcon.testing.bench bridge|cli|link [--json FILE]`."""
