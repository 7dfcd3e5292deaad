"""`t9ksched top`: nodes with their cards, queues and jobs on the whole terminal, live, with keys to act on jobs.

`view.py` is what is shown, as values; `screens.py` has the windows over it; `application.py` puts both on a terminal by
Textual, which the extra `top` of the package adds. Begin there.
"""
