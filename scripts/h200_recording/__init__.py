"""What `record-h200.py` runs on a GPU: one module a set of recordings, and the driver calls to run them."""
