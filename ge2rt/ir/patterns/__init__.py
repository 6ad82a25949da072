"""What people write for one thing: activations, softmax, causal masks, recognised in a graph."""
