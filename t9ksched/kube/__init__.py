"""How we speak Kubernetes; the only room that speaks HTTP to it.

`port.py` is the protocol that all others use, `resources.py` says where each kind lives, `errors.py` what can go wrong.
`transport` carries requests, `watch` keeps pictures of kinds equal to the server's, `write` has the protocols of
binding, eviction and leases, `setup` what a cluster must have for us. Begin with `port.py`.
"""
