"""Scripts with `#SBATCH` lines: what they ask for, as a job of ours, and what becomes of each line. Pure.

`lines.py` finds the options of a script, `options.py` is the table of those that sbatch has, `words.py` reads values as
Slurm writes them, `meanings.py` says what each option becomes, and `translation.py` puts it together. Begin there.
"""
