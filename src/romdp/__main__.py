"""``python -m romdp`` is the ``romdp`` command."""

from romdp.cli import main

if __name__ == "__main__":
    main()
