"""Lehr for Python: plugins by lehr.serve; lehr.plugin and lehr.intent are generated."""
