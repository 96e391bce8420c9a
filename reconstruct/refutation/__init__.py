"""Looking for an input where two networks differ, and replaying it in exact arithmetic."""
