"""What would happen: walks on virtual time (`t9ksched.simulation`) from the leader's view, in worker processes.

`capture` takes the present of the live cluster, `process` runs workers. `forecaster` keeps the forecasts of jobs beyond
the planned ones, which `forecast_worker` finds. `simulations` answers dry runs and what-ifs (begin there): `newcomers`
makes groups of submitted objects, `worker` walks, and `answers` says what it found in terms of jobs.
`lengthening` says which planned starts a longer time limit delays, as `plan_worker` finds. Nothing here changes the
state but a limit that was found to delay none, and nothing is written.
"""
