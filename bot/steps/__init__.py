"""The steps of the workflow, one module each."""
