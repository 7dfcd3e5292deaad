"""`python -m t9ksched …` is the same program as `t9ksched …`."""

from t9ksched.cli.main import main

if __name__ == "__main__":
    main()
