"""The Grafana dashboards as code: one file a dashboard, written as JSON by `make generate`.

To add a panel, add it to a row of its dashboard with a title, a description that says what it
means, a unit and its queries; to add a dashboard, write its file and name it in `catalog.py`.
"""
