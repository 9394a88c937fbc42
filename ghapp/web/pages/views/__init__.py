"""What templates are given that is no domain value: charts, tables by page, words for people. Pure."""
