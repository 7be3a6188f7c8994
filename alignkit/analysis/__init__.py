"""What the papers do with aligners: comparison, the lab, time courses, classification."""
