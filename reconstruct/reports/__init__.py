"""What a run leaves for people: report.json, the page, the summary of a terminal."""
