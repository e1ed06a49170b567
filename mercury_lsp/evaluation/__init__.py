"""Measurements a user can repeat: HumanEval-Infilling by running its tests, next edits against a recorded peer.

Nothing here knows how the model is loaded or drawn; the command line plugs an Infiller or a predictor in.
"""
