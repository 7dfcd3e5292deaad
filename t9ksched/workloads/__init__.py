"""How a job becomes pods: reading any kind of workload, expanding some, and bringing their fate back. Pure."""
