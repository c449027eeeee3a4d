"""Everything that talks to Linux about BPF: the only package that uses ctypes."""
