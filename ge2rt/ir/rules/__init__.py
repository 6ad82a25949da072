"""Local rewrites by op. A rule gets a builder and a node, and gives a simpler node or None."""
