"""Building blocks of the losses: terms in closed form, and the single pass that evaluates them."""

import torch

# The AVX-512 versions of log1p and expm1 in PyTorch end with a masked load of a constant, which only inputs
# of -0.0 need. While the page of that constant is not in memory, the processor suppresses a page fault at
# each of these loads, and log1p, expm1 and softplus of float32 take ten to twenty times as long
# (`python benchmarks/losses.py start`). One input of -0.0 brings the page in, for the whole process.
torch.full((64,), -0.0, dtype=torch.float32, device="cpu").log1p_()
