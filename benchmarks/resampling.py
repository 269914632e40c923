"""Time 10,000 clustered resamples of the 252 shipped items, with the accuracy deltas made from them."""

import statistics
import time

import evalkit
from evalkit.accuracy import CellTable, Resampling, accuracy_deltas

ROUNDS = 9

report = evalkit.diff(evalkit.load_run("semif-252/bf16"), evalkit.load_run("semif-252/q4"))
cells = CellTable([report.reference, report.candidate]).cells()
seconds = []
for _ in range(ROUNDS):
    start = time.perf_counter()
    accuracy_deltas(cells, Resampling(resamples=10_000))
    seconds.append(time.perf_counter() - start)
print(statistics.median(seconds))
