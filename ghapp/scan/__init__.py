"""`ghapp scan`: what is wrong now, without an App and without a store.

It lists the runners of a scope twice, folds both lists into evidence as sweeps do, and lets the same rules judge it.
`looks` has what two lists show, `findings` what is wrong, `allowance` how many calls that may cost. These are pure.
`reader` asks GitHub; `documents` and `texts` show the result.
"""
