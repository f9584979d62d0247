"""From samples to logits, here or on a cluster, and files of predictions that can be continued."""
