"""The front door: an HTTP POST becomes a verified, typed event. Knows nothing else of ours."""
