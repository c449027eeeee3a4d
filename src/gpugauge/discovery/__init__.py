"""Which processes map a driver library, which file that is, and where probes may go."""
