"""The program `t9ksched`: its commands, the demo, and `up`, which composes every service in one process.

`main.py` is the entry, `application.py` the table of commands (`commands`, a file each); `client.py` sends their REST
requests. `assembly.py` and `runtime.py` put the services together, `demo` plays the demo. Begin with `application.py`.
"""
