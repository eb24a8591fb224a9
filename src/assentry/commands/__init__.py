"""Shell command lines: read without running anything, and compared with patterns. Who asks about them is elsewhere."""
