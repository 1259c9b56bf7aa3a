"""Benches that a person starts: `python -m garcon.testing.bench NAME [--json FILE]`, of `bridge`,
`chats`, `cli`, `link` and `terminals`.
"""
