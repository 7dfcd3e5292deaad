"""One file a command. Thin: read the options, ask the service, print.

Heavy libraries are imported inside the functions, so that `t9ksched --help` answers at once.
"""
