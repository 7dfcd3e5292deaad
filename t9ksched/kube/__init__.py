"""The Kubernetes client: the only package that sends HTTP requests to an API server.

`port.py` is the protocol that all others use, `resources.py` says where each kind lives, `errors.py` what can go wrong.
`transport` carries requests, `watch` follows kinds of objects by list and watch, `write` has the protocols of binding,
eviction and leases, `setup` installs and checks what the cluster must have. Begin with `port.py`.
"""
