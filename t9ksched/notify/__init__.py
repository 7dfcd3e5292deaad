"""Sends notifications to addresses that users name: webhooks, mail, messaging services.

The only package that connects to where a user says. Whatever fails ends as `NotSent`, in words that name neither the
address nor anything that was answered. Begin with `sending.py`.
"""
