"""Benches that a person starts: `python -m garcon.testing.bench bridge|cli [--json FILE]`."""
