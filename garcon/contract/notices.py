"""Fixed texts that one side writes and another may recognise: plain constants, no imports."""

RECEIPT_CUT = "[Earlier output is left out here; the chat's messages hold all of it.]\n"
"""Begins the text of a turn receipt cut to its tail for the primary lane (control.md F.4)."""
