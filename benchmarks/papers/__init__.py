"""The figures and tables of the five papers: what each shows, and our own curves beside it.

``rules.py`` has what can be asked of a curve, ``figures.py`` the papers' figures, what they show and which experiment
draws the same, and ``beside.py`` draws and judges. ``docs/papers.md`` says the same in words.
"""
