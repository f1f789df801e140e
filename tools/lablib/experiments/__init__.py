"""Experiments: each makes its own labs, measures, and writes what it found into a folder.

A module of an experiment has

    NAME, TITLE              as on the command line, and in one line what it shows
    ROUNDS, SECONDS          how often, and how long each point, unless told otherwise
    measure(bench, options)  the raw figures, an object for JSON
    report(figures)          a Report, computed from nothing but the figures
    plots(figures)           Plots, likewise
"""
