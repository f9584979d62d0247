"""`python -m spml` is the command `spml`."""

from .cli import main

if __name__ == "__main__":
    main()
