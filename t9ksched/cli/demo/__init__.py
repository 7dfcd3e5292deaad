"""The demo: a dev cluster on free ports, scenes that use it as a user would, and a live map of it.

A scene speaks REST and the Kubernetes API only. Each later capability adds a file under `scenes/`.
"""
