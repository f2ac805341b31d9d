"""Where requests wait: under JOBDIR, or on the fleet's server."""
