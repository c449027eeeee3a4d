"""A simulated CUDA driver: the real exported names and entry shapes, a device behind them."""
