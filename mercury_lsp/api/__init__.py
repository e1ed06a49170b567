"""The HTTP API: Mercury-compatible endpoints and the playground page, over one shared model.

Read app.py for the routes, answering.py for how an answer becomes a body or a stream, pool.py for who runs when.
Nothing here knows about editors or documents.
"""
