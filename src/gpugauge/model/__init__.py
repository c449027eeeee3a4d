"""What crosses boundaries: frozen, unit-named, and free of behaviour."""
