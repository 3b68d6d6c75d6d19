"""THE LIVE PAGE: what a running streaming join shows, as a page and as metrics for Prometheus; see `server.py`."""

from watersmeet.live.history import Figures
from watersmeet.live.server import Server, serve

__all__ = ["Figures", "Server", "serve"]
