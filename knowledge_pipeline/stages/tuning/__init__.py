"""Tuning: learns the ranker's weights from questions that the corpus itself answers.

module       from                     to
mine         the store                pairs: a question, and the places that answer it
examples     pairs                    features of what was found for each (masking.py takes docstrings out)
training     examples                 weights near the shipped ones
tune         all of it                a verdict, and a release where it is better

Beside it, `ablation` tells what each step of the search is worth, and `suggest_questions` writes golden
questions.
"""
