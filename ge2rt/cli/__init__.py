"""The command line: ``ge2rt doctor | kernels | capability | render | build | check | cache``."""
