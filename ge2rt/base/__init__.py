"""Ground floor: errors and codes, switches, paths, dtypes, shape algebra, events."""
