"""Ways in which the simulated GitHub fails or answers falsely, for a while, for one organization or for all.

`requests`: the fate of a request. `runners`: false answers about runners. `access`: permissions that tokens lack
although they should have them. `webhooks`: the fate of a delivery. Any number of them act together.
"""
