"""Devices: four small classes each, behind the contracts of :mod:`ge2rt.device.api`."""
