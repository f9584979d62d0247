"""Files that data consists of: what a folder holds, which file a name stands for, names in little memory."""
