"""The command `failure-taxonomy`: one module a subcommand, each thin."""
