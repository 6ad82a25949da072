"""Derivatives of graphs, by column ``derivative`` of ``ops.yaml``. Pure: nodes in, nodes out."""
