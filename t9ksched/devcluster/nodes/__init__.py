"""Simulated nodes: one kubelet that simulates all of them, their device plugins, their capacity and heartbeats.

`presets.py` and `nodefile.py` make node objects; `kubelet.py` runs pods on them, `noderoom.py` admits them,
`deviceplugin.py` gives out cards. Begin with `kubelet.py`.
"""
