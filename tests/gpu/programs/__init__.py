"""Programs that are traced: PyTorch, JAX, CuPy, Triton. Each counts what it does itself."""
