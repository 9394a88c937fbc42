"""The frame of the pages: who may see what, buttons, the layout, sign-in and set-up. Each subject declares its pages.

A page is a value (`Page`) with a function from a visit to the values of its template; templates are in `templates`.
"""
