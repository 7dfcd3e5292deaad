"""The service: it keeps the state, asks the engine, and carries out what the engine decided."""
