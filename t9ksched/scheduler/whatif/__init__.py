"""What would happen: walks on virtual time (`t9ksched.simulation`) from the leader's view, in worker processes.

`capture` takes the present of the live cluster, `process` runs workers, and `forecaster` (begin there) keeps the
forecasts of jobs beyond the planned ones, which `forecast_worker` finds. Nothing is written.
"""
