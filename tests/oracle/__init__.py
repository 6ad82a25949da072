"""A second, independent reading of PTX: a plain NumPy interpreter and programs to try it on."""
