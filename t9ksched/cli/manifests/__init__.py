"""The manifests of an installation, from the Helm chart in `deploy/chart`, without Helm.

Start with `chart.py`, which renders the chart. `values.py` says which values there are, and `overrides.py` reads those
that a user gives; `gotemplate.py` carries out what the chart uses of Go's templates. `writing.py` writes what
follows from them: the chart's default values with their schema, and the Kustomize base.
"""
