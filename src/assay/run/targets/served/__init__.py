"""Services and endpoints as a target: any protocol of `assay.run.apis` under load, answers read afterwards.

supply.py, first_request.py     requests as bytes; the first one by itself
rows.py, fast_reader.py         answers read, row by row or many together
counting.py                     tokens of each answer
request_metrics.py, figures.py  one value per request; samples and metrics of the load
facts.py, outputs.py, share.py  facts beside the numbers; answers to be scored; parts of a shared load
rate_search.py                  the highest rate that meets the objective
measure.py                      one run, which puts them together
"""
