"""Published methods, one file per paper. A module in this folder is found by itself: no list to extend."""
