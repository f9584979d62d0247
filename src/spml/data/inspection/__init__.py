"""What data holds, and what is odd about it."""
