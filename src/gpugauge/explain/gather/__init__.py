"""Where evidence comes from: one module a source. Each raises GpugaugeError for what it lacks."""
