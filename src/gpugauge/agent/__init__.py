"""The wiring: what reads, what decides, and the tick that joins them."""
