"""What happened when a pod asked for a GPU.

Gatherers (`gather`) fill `evidence.Evidence`; checks (`checks`) are pure functions over it;
`walk` puts their answers in request order; `text` draws them.
"""

PATH = "/api/v1/explain"
"""The agent's page: `?namespace=NAME&pod=NAME`, or nothing for its node."""
