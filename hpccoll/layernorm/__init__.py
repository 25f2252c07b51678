"""LayerNorm and RMSNorm of sums over ranks: what the order of the operations changes."""
