"""The command `distributary`: one module a command, each thin, and loading what it uses when it is used."""
