"""Attacks on the package's promises: random cases by the thousand, every violation kept as files.

Each class of attack is one file that registers one function in `registry.ATTACKS`.
"""
