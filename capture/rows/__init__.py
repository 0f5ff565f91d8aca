"""Lists of another length in each call, as rows of arrays: nobody looks at their items one by one.

    grown_lists         New lists that loops of the Graph fill: what each round appends is a row of arrays, one for
                        all rounds
    stored_rows         New lists into which each round of a loop stores an item at the number that the loop counts
    given_rows          Lists that a call is given, of another length in each call, as rows
    alike_items         Lists that loops have filled with items that are alike, as rows of arrays
"""
