"""`python -m bot_companion doctor`."""

import sys

from ._doctor import main

sys.exit(main())
