"""The JSON shapes of requests and answers, as `/docs` and clients generated from OpenAPI see them.

They describe, they do not convert: answers are written as they are, and bodies are read by the model's own parsers,
which tell every faulty field. Read `base.py` first. Each shape is imported from the module that has it, because making
all of them takes longer than the first answers of a service.
"""
