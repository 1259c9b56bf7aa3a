"""The two doors of the controller side by side: its own HTTP, and a worker's gateway."""
