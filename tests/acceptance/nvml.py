"""A library for cards as `nvidia-ml-py` is one, for machines that have none: `pynvml.py` in a folder of PYTHONPATH."""


def library(cards: int) -> str:
    """Its text, for a machine with so many."""
    return f"""
class NVMLError(Exception): pass
class NVMLError_LibraryNotFound(NVMLError): pass
class NVMLError_DriverNotLoaded(NVMLError): pass
class Memory: total = 80 << 30
def nvmlInit(): pass
def nvmlShutdown(): pass
def nvmlDeviceGetCount(): return {cards}
def nvmlDeviceGetHandleByIndex(index): return index
def nvmlDeviceGetName(card): return "NVIDIA H100 80GB HBM3"
def nvmlDeviceGetUUID(card): return f"GPU-{{card}}"
def nvmlDeviceGetMemoryInfo(card): return Memory
def nvmlDeviceGetMigMode(card): raise NVMLError("not supported")
"""
