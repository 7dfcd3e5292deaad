"""From what users type to objects: jobs without YAML, scripts with `#SBATCH` lines, changes of single fields. Pure.

`asked.py` is what can be asked for in words, `job.py` makes the object of it. Begin with `asked.py`.
"""
