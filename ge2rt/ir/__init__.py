"""The graph IR: pure data, passes, text; no device, no compiler."""
