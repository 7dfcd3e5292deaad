"""The HTTP code that all endpoints share: bodies, parameters, responses, errors, middleware, overload.

`middleware.py` wraps every request, `bodies.py` and `request_bodies.py` read request bodies, `responses.py` and
`problems.py` write responses. Begin with `middleware.py`.
"""
