"""From a request to an answer: configuration, credentials, connections, HTTP.

`client.py` has the verbs on plain dicts, `requester.py` sends one request, `pool.py` carries small ones over HTTP/2 or
kept HTTP/1.1 connections; `config.py` and `credentials.py` know which cluster to connect to, and as which user. Begin
with `client.py`.
"""
