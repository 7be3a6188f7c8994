"""Phrase pairs that are consistent with links: phrase tables, and bilingual terms.

Limits and defaults, which the command line reads; this module imports nothing.
"""

#: The most words of a phrase: the links of a pair are the bits of one number.
LONGEST = 8
PHRASE_LENGTH = 7  #: the most words of a phrase by default, as of Moses
TERM_LENGTH = 5  #: the most words of a term by default
LEAST_COUNT = 3  #: of a term
#: A word that there is more often than in this share of the sentence pairs is a function word.
FUNCTION_WORDS = 0.05
