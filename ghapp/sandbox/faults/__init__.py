"""Ways in which this GitHub fails, or says what is not true: each for a while, to one organization or to all.

`requests`: what becomes of a request. `runners`: what answers about runners say instead of the truth. `access`: what
tokens may not do although they may. `webhooks`: what becomes of a delivery. Any number of them work together.
"""
