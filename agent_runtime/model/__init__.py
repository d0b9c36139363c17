"""The words of a runtime, and what every stage needs beside them.

Words: notices, actions, errors. Needs: a clock, draws (chance that follows from a seed), owned tasks, slots.
"""
