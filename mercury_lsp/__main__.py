"""`python -m mercury_lsp`: the same as `mercury-lsp`."""

import sys

from mercury_lsp.cli import main

sys.exit(main())
