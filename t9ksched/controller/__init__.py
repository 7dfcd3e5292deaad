"""The service that turns job objects into pods and the fate of pods into job status."""
