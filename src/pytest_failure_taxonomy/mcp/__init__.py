"""The server of the Model Context Protocol, which agents ask about runs."""
