"""A command of the fork server for a shell: `python -I -S forked.py ADDRESS MODULE ARGUMENT…`.

It passes on its streams, environment, folder and SIGTERM, and ends with the command's exit code. It imports little, as
that is what it saves.
"""

import array
import json
import os
import signal
import socket
import sys

where, module, *arguments = sys.argv[1:]
line = socket.socket(socket.AF_UNIX)
line.connect(where)
message = json.dumps([module, arguments, dict(os.environ), os.getcwd()]).encode()
line.sendmsg([len(message).to_bytes(8, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
line.sendall(message)
told = line.makefile()
pid = int(told.readline())
signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGTERM))
code = next(int(word) for word in told if word != "stopped\n")
sys.exit(code if code >= 0 else 128 - code)
