"""Coding agents: one builder per role, prompts in Markdown, tools bound to one workspace."""
