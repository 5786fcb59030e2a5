"""The report in other forms, one module each; all of them read the JSON object."""
