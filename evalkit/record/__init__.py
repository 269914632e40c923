"""Recording runs: every item of a label set is asked by the published protocol, and each decision is kept."""
