"""The leases of a world: who lives until when. What lives under them is the tree's business."""
