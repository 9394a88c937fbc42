"""Installations of the App: their accounts, pools and pace."""
