"""The API of the server as an OpenAPI document, as its routes are now: the web pages get their types from it."""

import json
import sys

from assay.serve.app import create_app
from assay.serve.settings import ServerSettings


def main() -> None:
    """Write the document, the same for the same routes."""
    # Whoever runs this may have a server's settings around; the routes do not depend on them.
    json.dump(create_app(ServerSettings(port=0)).openapi(), sys.stdout, indent=1, sort_keys=True, ensure_ascii=False)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
