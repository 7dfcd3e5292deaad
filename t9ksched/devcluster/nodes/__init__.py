"""Simulated nodes: one kubelet that simulates all of them, their device plugins, their capacity and heartbeats.

`presets.py` and `nodefile.py` make node objects; `podagent.py` takes pods, `kubelet.py` simulates their containers,
`noderoom.py` admits them, `deviceplugin.py` gives out cards. Begin with `podagent.py`.
"""
