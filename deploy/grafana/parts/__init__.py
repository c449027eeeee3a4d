"""What every dashboard is made of: names, queries, panels, tables, variables, places."""
