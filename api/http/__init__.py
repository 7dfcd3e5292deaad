"""What all endpoints share of HTTP: bodies, parameters, answers, errors, what surrounds a request, overload.

`middleware.py` is around every request, `bodies.py` and `request_bodies.py` read what is sent, `responses.py` and
`problems.py` write what is answered. Begin with `middleware.py`.
"""
