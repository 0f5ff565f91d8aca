"""Programs as users write them, each of which makes things anew in every call: see `tests.settling.kit`."""
