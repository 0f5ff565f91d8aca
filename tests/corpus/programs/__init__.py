"""The programs of the corpus, one file a theme; each function is one feature or idiom."""
