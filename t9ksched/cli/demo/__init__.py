"""The demo: a dev cluster on free ports, scenes that use it as a person would, and a map to watch it on.

A scene speaks REST and the Kubernetes API only. Each later capability adds a file under `scenes/`.
"""
