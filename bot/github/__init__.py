"""GitHub: the port decisions speak to, the client behind it, what is published, every sentence.

| module | holds |
|---|---|
| port | Protocols, facts, errors: what decisions know |
| repository, door, access, client, wire | behind it: what is asked, names, tokens, HTTP, JSON |
| protection | what branches demand |
| publisher, run_effects, marks | what one run shows, each thing once |
| messages, escape | every sentence; foreign words made harmless |
"""
