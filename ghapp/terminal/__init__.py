"""What commands print: tables for a terminal of any width, which in a pipe are plain lines of whole words.

They render the documents of the HTTP API, so that a command prints the same from this process and over HTTP.
"""
